/** What every storage must do, wherever it keeps things. A new storage is done when this passes on it. */

import { describe } from 'vitest';
import { checkpointContract } from './storage-checkpoints.ts';
import { eventContract, trimContract } from './storage-events.ts';
import { keyContract } from './storage-keys.ts';
import { lockContract } from './storage-locks.ts';
import { recordContract } from './storage-records.ts';
import type { OpenStorage } from './storage-samples.ts';

export function storageContract(name: string, open: OpenStorage): void {
  describe(`${name} storage`, () => {
    describe('checkpoints', () => checkpointContract(open));
    describe('records', () => recordContract(open));
    describe('events', () => eventContract(open));
    describe('trimmed events', () => trimContract(open));
    describe('locks', () => lockContract(open));
    describe('agent keys', () => keyContract(open));
  });
}

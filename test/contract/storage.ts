/** What every storage must do, wherever it keeps things. A new storage is done when this passes on it. */

import { describe } from 'vitest';
import { artifactContract } from './storage-artifacts.ts';
import { bootstrapContract } from './storage-bootstrap.ts';
import { checkpointContract } from './storage-checkpoints.ts';
import { depsContract } from './storage-deps.ts';
import { documentContract } from './storage-documents.ts';
import { eventContract, trimContract } from './storage-events.ts';
import { fenceContract } from './storage-fences.ts';
import { keyContract } from './storage-keys.ts';
import { lockContract } from './storage-locks.ts';
import { recordContract } from './storage-records.ts';
import type { OpenStorage } from './storage-samples.ts';
import { scopeContract } from './storage-scopes.ts';
import { textContract } from './storage-texts.ts';
import { transcriptContract } from './storage-transcripts.ts';

export function storageContract(name: string, open: OpenStorage): void {
  describe(`${name} storage`, () => {
    describe('checkpoints', () => checkpointContract(open));
    describe('records', () => recordContract(open));
    describe('events', () => eventContract(open));
    describe('trimmed events', () => trimContract(open));
    describe('locks', () => lockContract(open));
    describe('fences', () => fenceContract(open));
    describe('transcripts', () => transcriptContract(open));
    describe('tools', () => textContract(open, ({ tools }) => tools));
    describe('skills', () => textContract(open, ({ skills }) => skills));
    describe('artifacts', () => artifactContract(open));
    describe('deps', () => depsContract(open));
    describe('documents', () => documentContract(open));
    describe('bootstrap configs', () => bootstrapContract(open));
    describe('scopes', () => scopeContract(open));
    describe('agent keys', () => keyContract(open));
  });
}

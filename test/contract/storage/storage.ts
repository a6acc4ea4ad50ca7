/** What every storage must do, wherever it keeps things. A new storage is done when this passes on it. */

import { describe } from 'vitest';
import { artifactContract } from './artifacts.ts';
import { bootstrapContract } from './bootstrap.ts';
import { checkpointContract } from './checkpoints.ts';
import { depsContract } from './deps.ts';
import { documentContract } from './documents.ts';
import { eventContract, trimContract } from './events.ts';
import { fenceContract } from './fences.ts';
import { keyContract } from './keys.ts';
import { lockContract } from './locks.ts';
import { recordContract } from './records.ts';
import type { OpenStorage } from './samples.ts';
import { scopeContract } from './scopes.ts';
import { textContract } from './texts.ts';
import { transcriptContract } from './transcripts.ts';

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

/** Checkpoint data that says by itself whether it is whole: what a segment holds follows from its id and its length. */

import { createHash } from 'node:crypto';
import type { Manifest } from '../../../src/protocol/kernel-state.ts';

export const segmentOf = (id: string, bytes: number): Buffer => Buffer.alloc(bytes, `${id} `);

export function manifest(id: string, segments: readonly Buffer[]): Manifest {
  return {
    format: 1,
    id,
    kind: 'save',
    createdAt: Date.now(),
    python: '3.11.2',
    execution: 1,
    bytes: segments.reduce((sum, { length }) => sum + length, 0),
    saved: [],
    lost: [],
    segments: segments.map((bytes) => ({
      kind: 'pickle',
      names: [],
      portable: true,
      bytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    })),
  };
}

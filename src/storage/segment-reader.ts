/** Reads the segments of a checkpoint from its chunks, in file storage and in Redis, and checks their digests. */

import { createHash } from 'node:crypto';
import { giveWay } from '../lib/event-loop.ts';
import type { Segment } from '../protocol/kernel-state.ts';

/** The length of every chunk of a blob but the last. */
export const CHUNK_BYTES = 8 * 1024 * 1024;

interface SegmentSource {
  /** A segment that begins at `offset` and may span several chunks. */
  readSegment(segment: Segment, offset: number): Promise<Uint8Array | undefined>;
  /** A chunk; undefined if it is gone. `bytes` is how long it should be. */
  readChunk(index: number, bytes: number): Promise<Uint8Array | undefined>;
}

/** All segments in order; undefined for a damaged one. Reads a chunk with several segments only once. */
export async function* readSegments(
  segments: readonly Segment[],
  source: SegmentSource,
): AsyncGenerator<Uint8Array | undefined> {
  const total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  let chunk: { readonly index: number; readonly bytes: Uint8Array | undefined } | undefined;
  let offset = 0;
  for (const segment of segments) {
    const start = offset;
    const index = Math.floor(start / CHUNK_BYTES);
    offset += segment.bytes;
    if (offset > (index + 1) * CHUNK_BYTES) {
      yield await source.readSegment(segment, start);
      continue;
    }
    if (chunk?.index !== index) {
      const length = Math.min(CHUNK_BYTES, total - index * CHUNK_BYTES);
      chunk = { index, bytes: await source.readChunk(index, length) };
    }
    const inChunk = start % CHUNK_BYTES;
    yield await intact(segment, chunk.bytes?.subarray(inChunk, inChunk + segment.bytes));
  }
}

/** The bytes; undefined if they differ from what was written. */
export async function intact(segment: Segment, bytes: Uint8Array | undefined): Promise<Uint8Array | undefined> {
  if (bytes?.length !== segment.bytes) return undefined;
  return (await digestOf(bytes)) === segment.sha256 ? bytes : undefined;
}

const HASHED_AT_ONCE = 1024 * 1024;

/** SHA-256 in hexadecimal. Yields to other work, because hashing hundreds of megabytes takes long. */
export async function digestOf(...parts: readonly Uint8Array[]): Promise<string> {
  const hash = createHash('sha256');
  for (const part of parts) {
    for (let at = 0; at < part.length; at += HASHED_AT_ONCE) {
      await giveWay();
      hash.update(part.subarray(at, at + HASHED_AT_ONCE));
    }
  }
  return hash.digest('hex');
}

/** The segments of a checkpoint: parts of one run of bytes that lies in chunks. */

import { createHash } from 'node:crypto';
import type { Segment } from '../../protocol/kernel-state.ts';
import { CHUNK_BYTES, type Content, reaches, readRange } from './chunks.ts';
import type { Place } from './place.ts';

/** The bytes of a segment that begins at `offset`; undefined where they are not what was written. */
export async function readSegment(
  { link, keys }: Place,
  content: Content,
  segment: Segment,
  offset: number,
): Promise<Uint8Array | undefined> {
  // A manifest may tell of more bytes than there are, or than memory holds.
  if (!(await reaches(link, keys, content, offset + segment.bytes))) return undefined;
  return whole(segment, await readRange(link, keys, content, offset, segment.bytes));
}

/** All segments, one after the other; a chunk that holds many of them is read once. */
export async function* readSegments(
  place: Place,
  content: Content,
  segments: readonly Segment[],
): AsyncGenerator<Uint8Array | undefined> {
  const { link, keys } = place;
  const total = segments.reduce((sum, { bytes }) => sum + bytes, 0);
  let held: { readonly index: number; readonly bytes: Buffer | undefined } | undefined;
  let offset = 0;
  for (const segment of segments) {
    const start = offset;
    const index = Math.floor(start / CHUNK_BYTES);
    offset += segment.bytes;
    if (offset > (index + 1) * CHUNK_BYTES) {
      yield await readSegment(place, content, segment, start);
      continue;
    }
    if (held?.index !== index) {
      const length = Math.min(CHUNK_BYTES, total - index * CHUNK_BYTES);
      held = { index, bytes: await readRange(link, keys, content, index * CHUNK_BYTES, length) };
    }
    const inChunk = start % CHUNK_BYTES;
    yield whole(segment, held.bytes?.subarray(inChunk, inChunk + segment.bytes));
  }
}

function whole(segment: Segment, bytes: Uint8Array | undefined): Uint8Array | undefined {
  if (bytes?.length !== segment.bytes) return undefined;
  return createHash('sha256').update(bytes).digest('hex') === segment.sha256 ? bytes : undefined;
}

/** Segments of a checkpoint on their way to a kernel that loads them. */

import type { Segment } from '../protocol/checkpoint.ts';
import { FrameType } from '../protocol/frames.ts';
import { encodePart } from '../protocol/kernel.ts';
import type { FrameLink } from './link.ts';

export interface LoadableSegment {
  readonly header: Pick<Segment, 'kind' | 'names' | 'portable'>;
  readonly bytes: Uint8Array;
}

const PART_BYTES = 8 * 1024 * 1024;
/** How much may be on its way. */
const AHEAD_BYTES = 4 * 1024 * 1024;

export async function sendSegments(
  control: FrameLink,
  id: number,
  python: string,
  segments: AsyncIterable<LoadableSegment>,
): Promise<void> {
  let ahead = 0;
  for await (const { header, bytes } of segments) {
    for (let at = 0; at === 0 || at < bytes.length; at += PART_BYTES) {
      const piece = bytes.subarray(at, at + PART_BYTES);
      const last = at + PART_BYTES >= bytes.length;
      const sent = control.sendSlowly(FrameType.load, id, encodePart({ ...header, last }, piece));
      ahead += piece.length;
      if (ahead < AHEAD_BYTES) continue;
      // The kernel takes its time: what waits for it must not fill the host's memory.
      await sent;
      ahead = 0;
    }
  }
  control.send(FrameType.load, id, encodePart({ end: true, python }, Buffer.alloc(0)));
}

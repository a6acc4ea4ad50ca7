/** The mark of an execution: bytes that its output cannot hold by chance. */

import { randomFillSync } from 'node:crypto';

export const MARK_BYTES = 16;

/** Random bytes are made in bulk: one call costs as much as a thousand bytes. */
const pool = Buffer.alloc(256 * MARK_BYTES);
let used = pool.length;

export function newMark(): Buffer {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const mark = Buffer.from(pool.subarray(used, used + MARK_BYTES));
  used += MARK_BYTES;
  // No byte of UTF-8 text is 0xff, so a search for the mark rarely has to look twice.
  mark[0] = 0xff;
  return mark;
}

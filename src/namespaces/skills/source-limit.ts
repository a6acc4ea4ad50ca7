/** How long the source of a skill may be, whoever has written it. */

import { invalidSkill } from './invalid.ts';

const MOST_BYTES = 256 * 1024;

export function checkLength(source: string): void {
  if (Buffer.byteLength(source) > MOST_BYTES) throw invalidSkill(`it is longer than ${MOST_BYTES / 1024} KB`);
}

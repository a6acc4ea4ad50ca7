/** How long the source of a skill may be, and how many parameters it may have, whoever has written it. */

import { invalidSkill } from './invalid.ts';

const MOST_BYTES = 256 * 1024;

/** Of `run`. Of a skill that was kept before there was a limit, the first ones are told. */
export const MOST_PARAMETERS = 255;

export function checkLength(source: string): void {
  if (Buffer.byteLength(source) > MOST_BYTES) throw invalidSkill(`it is longer than ${MOST_BYTES / 1024} KB`);
}

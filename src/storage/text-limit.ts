/** How long the text of a tool or a skill may be, in every storage. */

import { CellaError } from '../protocol/errors.ts';

export const MOST_TEXT_BYTES = 1024 * 1024;

export function checkText(what: string, name: string, text: string): void {
  const refuse = (why: string) => {
    throw new CellaError('STORAGE_FAILED', `Cannot store the ${what} ${JSON.stringify(name)}: ${why}.`);
  };
  const bytes = Buffer.byteLength(text);
  if (bytes > MOST_TEXT_BYTES) refuse(`it has ${bytes} bytes, and at most ${MOST_TEXT_BYTES} may be`);
  if (!text.isWellFormed()) refuse('it holds a lone surrogate, which no file can hold');
}

/** A word of a command line that must not be empty. */

import { InvalidArgumentError } from 'commander';

/** An empty folder would be this one, and an empty name none: both come from a variable that is not set. */
export function parseText(text: string): string {
  if (text !== '') return text;
  throw new InvalidArgumentError('It must not be empty.');
}

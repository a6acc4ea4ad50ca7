/** A Python of another version than the one that the tests run with, where this machine has one. */

import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The oldest that kernels run on. */
export const OTHER_VERSION = '3.9';

/** CELLA_OTHER_PYTHON, or one of pyenv's. */
export function findOtherPython(): string | undefined {
  if (process.env.CELLA_OTHER_PYTHON) return process.env.CELLA_OTHER_PYTHON;
  const folder = join(homedir(), '.pyenv', 'versions');
  const name = existsSync(folder) && readdirSync(folder).find((each) => each.startsWith(`${OTHER_VERSION}.`));
  return name ? join(folder, name, 'bin', 'python3') : undefined;
}

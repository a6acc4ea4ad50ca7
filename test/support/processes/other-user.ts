/** Another user of this machine, and what that one gets at. Only root can become another. */

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** As text: where this checkout lies, a stranger may not enter. */
const program = readFileSync(new URL('other-user.py', import.meta.url), 'utf8');
const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const NOBODY = 65_534;

export const canBeAnother = process.getuid?.() === 0;

export interface Attempts {
  /** Sockets. */
  readonly connect?: readonly string[];
  /** Folders to list, files to read and write. */
  readonly open?: readonly string[];
  /** Looked for in what processes show of themselves, and in the files below these folders. */
  readonly words?: readonly string[];
  readonly folders?: readonly string[];
}

export interface Gained {
  /** `ok`, or the name of the error, for each. */
  readonly connect: readonly string[];
  readonly open: readonly string[];
  /** The words that were found. */
  readonly found: readonly string[];
}

export function stranger(attempts: Attempts): Gained {
  return visit(attempts, { uid: NOBODY, gid: NOBODY });
}

/** The same as whoever runs the tests: what a stranger does not get at is there. */
export function oneself(attempts: Attempts): Gained {
  return visit(attempts, {});
}

function visit(attempts: Attempts, as: { readonly uid?: number; readonly gid?: number }): Gained {
  const { connect = [], open = [], words = [], folders = [] } = attempts;
  // A stranger knows the names too, where only listing them is refused.
  const files = folders.flatMap(filesBelow);
  const input = JSON.stringify({ connect, open, words, files });
  // Nothing of this process: not its variables, and no folder that a stranger could not enter.
  return JSON.parse(execFileSync(python, ['-I', '-c', program], { input, env: {}, cwd: '/', encoding: 'utf8', ...as }));
}

function filesBelow(folder: string): string[] {
  const all = readdirSync(folder, { recursive: true, withFileTypes: true });
  return all.filter((one) => one.isFile()).map(({ parentPath, name }) => join(parentPath, name));
}

/** What programs of every environment have in common: what may be asked for, their input, and how long they have to end. */

import type { Writable } from 'node:stream';
import { CellaError } from '../protocol/errors.ts';
import type { ExecOptions } from './contract.ts';

/** Between TERM and KILL. */
export const GRACE_MS = 2000;

/** What every program sees, where nothing else is said. */
export const PLAIN_ENV: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
};

/** What no system takes is refused the same everywhere. */
export function checkProgram(argv: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  if (argv.length === 0 || argv[0] === '') throw new CellaError('EXEC_FAILED', 'No program was named.');
  if (argv.some((word) => word.includes('\0'))) throw new CellaError('EXEC_FAILED', 'An argument holds a null byte.');
  for (const [name, value] of Object.entries(env)) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw new CellaError('EXEC_FAILED', `${JSON.stringify(name.slice(0, 80))} cannot be a variable.`);
    }
  }
}

/** Text and bytes are written and the input ended; only a pipe is handed on. */
export function feed(input: Writable | undefined, stdin: ExecOptions['stdin']): Writable | undefined {
  if (!input) return undefined;
  // A program need not read all that it is given.
  input.on('error', () => {});
  if (stdin === 'pipe') return input;
  input.end(stdin);
  return undefined;
}

/**
 * The runner's own stdin, stdout and environment variables. The streams carry the protocol only: libraries print to stderr
 * and read nothing.
 */

import { Console } from 'node:console';
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { PassThrough, type Readable, type Writable } from 'node:stream';

export interface RunnerStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** Called before anything is loaded that could use the streams. */
export function claimStreams(): RunnerStreams {
  const input: Readable = isPipe(0) ? new Socket({ fd: 0, readable: true, writable: false }) : process.stdin;
  // Node's own stdout would block the whole process while nothing reads it.
  const output: Writable = isPipe(1) ? new Socket({ fd: 1, readable: false, writable: true }) : process.stdout;
  const nothing = new PassThrough().end();
  // An import of `node:process` reads both; without this, Node would open them again and fail.
  Object.defineProperty(process, 'stdin', { get: () => nothing });
  Object.defineProperty(process, 'stdout', { get: () => process.stderr });
  globalThis.console = new Console(process.stderr, process.stderr);
  return { input, output };
}

function isPipe(fd: number): boolean {
  const facts = fstatSync(fd);
  return facts.isFIFO() || facts.isSocket();
}

export function ownVariables(): Record<string, string> {
  const variables: Record<string, string> = {};
  // biome-ignore lint/style/noProcessEnv: this is the one place where the runner reads them.
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined) variables[name] = value;
  return variables;
}

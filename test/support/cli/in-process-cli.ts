/** The command line in this process: for suites on commands that only ask a server, where a process of their own costs most. */

import { EventEmitter } from 'node:events';
import { PassThrough, Readable } from 'node:stream';
import { watchFolder } from '../../../src/cli/backend/backend.ts';
import { type ProgramContext, runProgram } from '../../../src/cli/program.ts';
import { Terminal } from '../../../src/cli/terminal/terminal.ts';
import { readProcessConfig } from '../../../src/settings/process-config.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** With the data folder and these variables, and none of this process; `parts` are those that a command does need. */
export async function runCella(
  words: readonly string[],
  env: NodeJS.ProcessEnv,
  parts: Partial<ProgramContext> = {},
): Promise<Said> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const never = () => Promise.reject(new Error('this command needs no such part'));
  const code = await runProgram(words, {
    terminal: new Terminal({ stdin: Readable.from([]), stdout, stderr, noColor: true }),
    signals: new EventEmitter(),
    version: '0',
    defaults: readProcessConfig(env),
    openSession: never,
    listKernels: never,
    openCheckpoints: never,
    openNamespaces: never,
    listStore: never,
    copyNamespaces: never,
    factsByName: never,
    detect: never,
    bench: never,
    serve: never,
    watchFolder,
    serveMcp: never,
    ...parts,
  });
  return { code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
}

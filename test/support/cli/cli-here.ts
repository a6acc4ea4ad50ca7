/**
 * The command line in this process, with all that it does when it is one of its own: for suites of many short commands,
 * where starting Node and a Python for each takes most of the time. That a command ends, and what it leaves behind when it
 * does, only a process of its own shows.
 */

import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { afterAll } from 'vitest';
import { BackendSelector } from '../../../src/cli/backend/backend-selector.ts';
import { LocalBackend } from '../../../src/cli/backend/local-backend.ts';
import { runCommandLine } from '../../../src/cli/command-line.ts';
import { CliTerminal } from '../../../src/cli/terminal/terminal.ts';
import { shutdown } from '../../../src/session/shared-resources.ts';
import { readProcessConfig } from '../../../src/settings/process-config.ts';

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export interface HereOptions {
  /** All of stdin. */
  readonly input?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** Kernels of later commands are forked from what the first one has started. */
afterAll(shutdown);

/** Keeps what is written to it. */
class Kept extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** One after the other, as at a prompt. */
export async function runHere(words: readonly string[], dataDir: string, options: HereOptions = {}): Promise<Said> {
  const env = { ...process.env, CELLA_DATA_DIR: dataDir, ...options.env };
  return await runCella(words, env, options.input);
}

/** With these variables, and none of this process; `input` is all of stdin. */
export async function runCella(words: readonly string[], env: NodeJS.ProcessEnv, input = ''): Promise<Said> {
  const [stdout, stderr] = [new Kept({ decodeStrings: true }), new Kept({ decodeStrings: true })];
  const terminal = new CliTerminal({ stdin: Readable.from([Buffer.from(input)]), stdout, stderr, noColor: true });
  const backend = new BackendSelector(new LocalBackend({ keepKernels: true }));
  const defaults = readProcessConfig({ ...env, NO_COLOR: '1' });
  const code = await runCommandLine(words, { terminal, signals: new EventEmitter(), backend, version: '0', defaults });
  await backend.close();
  await terminal.flush();
  return { code, out: stdout.text, err: stderr.text };
}

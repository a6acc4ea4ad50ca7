/**
 * The command line in this process, with all that it does when it is one of its own: for suites of many short commands,
 * where starting Node and a Python for each takes most of the time. That a command ends, and what it leaves behind when it
 * does, only a process of its own shows.
 */

import { EventEmitter } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { afterAll } from 'vitest';
import { Backend, LocalStores, watchFolder } from '../../../src/cli/backend/backend.ts';
import { detect } from '../../../src/cli/commands/doctor-probes.ts';
import { runProgram } from '../../../src/cli/program.ts';
import { Terminal } from '../../../src/cli/terminal/terminal.ts';
import { Session } from '../../../src/session/session.ts';
import { shutdown } from '../../../src/session/shared-resources.ts';
import { readProcessConfig } from '../../../src/settings/process-config.ts';
import { factsByName } from '../../../src/storage/media-types.ts';
import type { Said } from './in-process-cli.ts';

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
  const { input = '', env = {} } = options;
  const environment = readProcessConfig({ ...process.env, CELLA_DATA_DIR: dataDir, NO_COLOR: '1', ...env });
  const [stdout, stderr] = [new Kept({ decodeStrings: true }), new Kept({ decodeStrings: true })];
  const terminal = new Terminal({ stdin: Readable.from([Buffer.from(input)]), stdout, stderr, noColor: true });
  const stores = new LocalStores();
  const doors = new Backend({
    openSession: async ({ redis, server, typed, ...rest }) => {
      const storage = await stores.redis(redis);
      return await Session.open({ ...rest, ...(storage ? { storage } : {}) });
    },
    listKernels: (place) => stores.listKernels(place),
    openNamespaces: (place) => stores.openNamespaces(place),
    listStore: (place) => stores.list(place),
    openCheckpoints: (where) => stores.openCheckpoints(where),
  });
  const never = () => Promise.reject(new Error('this command is for a process of its own'));
  const code = await runProgram(words, {
    terminal,
    signals: new EventEmitter(),
    version: '0',
    defaults: environment,
    openSession: (place) => doors.openSession(place),
    listKernels: (place) => doors.listKernels(place),
    openCheckpoints: (where) => doors.openCheckpoints(where),
    openNamespaces: (place) => doors.openNamespaces(place),
    listStore: (place) => doors.listStore(place),
    copyNamespaces: (from, to, how) => stores.copy(from, to, how),
    factsByName: async (name) => factsByName(name),
    detect,
    bench: never,
    serve: never,
    watchFolder,
    serveMcp: never,
  });
  await doors.close();
  await stores.close();
  await terminal.flush();
  return { code, out: stdout.text, err: stderr.text };
}

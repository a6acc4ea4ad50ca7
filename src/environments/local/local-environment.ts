/** The local environment: programs are plain children of this process, under its own user. Nothing is isolated. */

import { spawn } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough, type Readable } from 'node:stream';
import { systemCode } from '../../lib/errno.ts';
import { endsAfterKill } from '../../lib/process-end.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import { enterGroup, killTagged, killTree, newProcessTag, removeGroups, termTree } from '../../sandbox/process-tree.ts';
import { folderId } from '../../sandbox/spec.ts';
import {
  BaseEnvironment,
  checkProgram,
  DEFAULT_ENV,
  type ExecOptions,
  GRACE_MS,
  newEnvironmentId,
  type Process,
  RESTARTED,
  readHandle,
  TERMINATED,
  writeStdin,
} from '../environment.ts';
import { type EnvironmentFolders, type MappedFolder, pathInside, realFolder } from '../files/environment-files.ts';
import type { FilesRoot } from '../files/session-files.ts';

export interface LocalOptions {
  readonly kind: 'local';
  readonly workspace: string;
  readonly home: string;
  /** Where the runner and the programs of agents are. */
  readonly app: string;
  readonly bundledMcp?: string;
  /** Variables of every program, beside PATH, HOME and LANG. Nothing of this process's own is passed on. */
  readonly env?: Readonly<Record<string, string>>;
}

/** In the environment of every program: what a process that is gone has left is found by it. */
const TAG_VARIABLE = 'CELLA_ENVIRONMENT';

const rootOf = ({ host, inside }: MappedFolder): FilesRoot => ({ path: host, inside, id: folderId(host) });

type LocalState = { kind: 'running' } | { kind: 'left'; reason: string } | { kind: 'ended'; reason: string };

export class LocalEnvironment extends BaseEnvironment {
  readonly kind = 'local';
  readonly isolated = false;
  readonly #env: Readonly<Record<string, string>>;
  #state: LocalState;

  private constructor(id: string, folders: EnvironmentFolders, env: LocalOptions['env'], state: LocalState) {
    const { workspace, home } = folders;
    // Its programs have the rights of this process too.
    super(id, folders, { workspace: rootOf(workspace), home: rootOf(home) });
    this.#env = { ...DEFAULT_ENV, HOME: folders.home.inside, ...env, [TAG_VARIABLE]: id };
    this.#state = state;
  }

  static async create({ workspace, home, app, bundledMcp, env }: LocalOptions): Promise<LocalEnvironment> {
    const same = (path: string) => ({ host: realFolder(path), inside: realFolder(path) });
    const folders: EnvironmentFolders = {
      workspace: same(workspace),
      home: same(home),
      app,
      bundledMcp: bundledMcp ?? join(app, 'mcp'),
    };
    return new LocalEnvironment(newEnvironmentId(), folders, env, { kind: 'running' });
  }

  /** One that another process had. What that has left running is ended. */
  static async attach(handle: unknown, { env }: Pick<LocalOptions, 'env'> = {}): Promise<LocalEnvironment> {
    const { id, folders } = readHandle(handle, ['local']);
    killTagged(TAG_VARIABLE, id);
    removeGroups(id);
    return new LocalEnvironment(id, folders, env, { kind: 'left', reason: RESTARTED });
  }

  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<Process> {
    if (this.#state.kind === 'ended') throw this.endedError(this.#state.reason);
    checkProgram(argv, options.env);
    options.signal?.throwIfAborted();
    const cwd = this.#folderOf(options.cwd ?? '');
    this.#state = { kind: 'running' };
    const env = { ...this.#env, ...options.env, [TAG_VARIABLE]: this.id };
    return this.track(startProcess({ argv, env, cwd, stdin: options.stdin, owner: this.id }), options.signal);
  }

  async poll(): Promise<{ readonly reason: string } | undefined> {
    return this.#state.kind === 'running' ? undefined : { reason: this.#state.reason };
  }

  async terminate(): Promise<void> {
    if (this.#state.kind !== 'ended') this.#state = { kind: 'ended', reason: TERMINATED };
    await this.endProcesses();
    killTagged(TAG_VARIABLE, this.id);
    removeGroups(this.id);
  }

  /** A link may lead from one folder of the environment to another, and not out of them. */
  #folderOf(cwd: string): string {
    const path = pathInside(this.folders, cwd);
    const { workspace, home } = this.folders;
    try {
      const real = realpathSync(path);
      if ([workspace.host, home.host].some((root) => `${real}/`.startsWith(`${root}/`))) return real;
    } catch (cause) {
      throw new CellaError('EXEC_FAILED', `There is no folder ${JSON.stringify(cwd.slice(0, 200))}.`, { cause });
    }
    throw new CellaError('EXEC_FAILED', `${JSON.stringify(cwd.slice(0, 200))} leads out of the environment.`);
  }
}

/** A process that escaped the kill may hold the pipes open; nothing waits for it longer. */
const SILENT_OUTPUT_MS = 1000;

interface LocalProgram {
  readonly argv: readonly string[];
  /** All of its variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdin?: 'pipe' | string | Uint8Array | undefined;
  /** Whose it is: in the mark by which all that it starts is found. */
  readonly owner: string;
}

function startProcess({ argv, env, cwd, stdin, owner }: LocalProgram): Process {
  const [program = '', ...args] = argv;
  const mark = newProcessTag(owner);
  const child = begin(program, args, { cwd, env: { ...env, ...mark.env }, stdin: stdin !== undefined });
  const group = child.pid === undefined ? undefined : enterGroup(child.pid, mark.group);
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const { promise: exited, resolve, reject } = Promise.withResolvers<ProcessExit>();
  const killNow = () => {
    if (child.pid === undefined) return;
    killTree(child.pid, mark, { ownGroup: true });
    if (!over)
      void endsAfterKill(exited, `${program} (process ${child.pid})`).then(() => resolve({ signal: 'SIGKILL' }));
  };
  child.once('error', (error) => {
    if (child.pid !== undefined) return; // it has started: `exit` reports its end
    over = true;
    reject(notStarted(program, error));
  });
  child.once('exit', (code, signal) => {
    over = true;
    clearTimeout(timer);
    // It has ended when its program has: what it left behind would outlive it, and hold the pipes open.
    killNow();
    group?.[Symbol.dispose]();
    resolve(code === null ? { signal: signal ?? 'SIGKILL' } : { code });
  });
  exited.catch(() => {}); // the caller gets the rejection
  return {
    stdin: writeStdin(child.stdin ?? undefined, stdin),
    stdout: outputOf(child.stdout, exited),
    stderr: outputOf(child.stderr, exited),
    exited,
    kill: ({ graceMs = GRACE_MS } = {}) => {
      if (over || child.pid === undefined) return;
      clearTimeout(timer);
      if (graceMs <= 0) return killNow();
      termTree(child.pid, mark);
      timer = setTimeout(killNow, graceMs);
    },
  };
}

function begin(program: string, args: string[], options: { cwd: string; env: Record<string, string>; stdin: boolean }) {
  try {
    const { cwd, env, stdin } = options;
    return spawn(program, args, { cwd, env, stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'], detached: true });
  } catch (error) {
    // spawn throws some errors (such as arguments that are too long) and emits others as events.
    throw notStarted(program, error);
  }
}

/** Output is kept until it is read, also after the program has ended. */
function outputOf(pipe: Readable | null, exited: Promise<ProcessExit>): Readable {
  const output = new PassThrough();
  if (!pipe) return output.end();
  pipe.on('error', () => output.end()); // the pipe of a program that was killed may break; what was read counts
  pipe.pipe(output);
  const letGo = () => {
    let before = -1;
    let seen = 0;
    pipe.on('data', (chunk: Buffer) => {
      seen += chunk.length;
    });
    // Waits for a slow reader. A pipe that is silent and still open is held by another process.
    const look = setInterval(() => {
      if (seen === before && !output.writableNeedDrain) pipe.destroy();
      before = seen;
    }, SILENT_OUTPUT_MS).unref();
    pipe.once('close', () => {
      clearInterval(look);
      output.end();
    });
    if (pipe.closed) clearInterval(look);
  };
  exited.then(letGo, () => output.end());
  return output;
}

function notStarted(program: string, error: unknown): CellaError {
  const missing = systemCode(error) === 'ENOENT';
  const reason = missing ? 'there is no such program' : error instanceof Error ? error.message : String(error);
  return new CellaError('EXEC_FAILED', `${JSON.stringify(program)} could not be started: ${reason}.`, {
    cause: error,
  });
}

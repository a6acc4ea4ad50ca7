/** The local environment: programs are plain child processes of this process, as its own user. Nothing is isolated. */

import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { type StartOptions, startProcess } from '../../lib/run-process.ts';
import { messageOf, systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { folderId } from '../../sandbox/named-folders.ts';
import { enterGroup, killTagged, killTree, newProcessTag, removeGroups, termTree } from '../../sandbox/process-tree.ts';
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
import {
  type EnvironmentFolders,
  type MappedFolder,
  pathInside,
  realFolder,
  sameFolder,
} from '../files/environment-files.ts';
import type { FilesRoot } from '../files/session-files.ts';

export interface LocalOptions {
  readonly kind: 'local';
  readonly workspace: string;
  readonly home: string;
  /** The folder of the runner and the agents' programs. */
  readonly app: string;
  readonly bundledMcp?: string;
  /** Variables of every program, in addition to PATH, HOME and LANG. This process's own variables are not passed on. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Set in the environment of every program, to find processes that an earlier host left behind. */
const TAG_VARIABLE = 'CELLA_ENVIRONMENT';

const rootOf = (folder: MappedFolder): FilesRoot => ({
  path: folder.host,
  inside: folder.inside,
  id: sameFolder(folder),
});

type LocalState = { kind: 'running' } | { kind: 'left'; reason: string } | { kind: 'ended'; reason: string };

export class LocalEnvironment extends BaseEnvironment {
  readonly kind = 'local';
  readonly isolated = false;
  readonly #env: Readonly<Record<string, string>>;
  #state: LocalState;

  private constructor(id: string, folders: EnvironmentFolders, env: LocalOptions['env'], state: LocalState) {
    const { workspace, home } = folders;
    // Its programs also have the rights of this process.
    super(id, folders, { workspace: rootOf(workspace), home: rootOf(home) });
    this.#env = { ...DEFAULT_ENV, HOME: folders.home.inside, ...env, [TAG_VARIABLE]: id };
    this.#state = state;
  }

  static async create({ workspace, home, app, bundledMcp, env }: LocalOptions): Promise<LocalEnvironment> {
    const same = (path: string): MappedFolder => {
      const host = realFolder(path);
      return { host, inside: host, id: folderId(host) };
    };
    const folders: EnvironmentFolders = {
      workspace: same(workspace),
      home: same(home),
      app,
      bundledMcp: bundledMcp ?? join(app, 'mcp'),
    };
    return new LocalEnvironment(newEnvironmentId(), folders, env, { kind: 'running' });
  }

  /** Attaches to an environment of another process. Ends what that process left running. */
  static async attach(handle: unknown, { env }: Pick<LocalOptions, 'env'> = {}): Promise<LocalEnvironment> {
    const { id, folders } = readHandle(handle, ['local']);
    await killTagged(TAG_VARIABLE, id);
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
    return this.track(startProgram({ argv, env, cwd, stdin: options.stdin, owner: this.id }), options.signal);
  }

  async poll(): Promise<{ readonly reason: string } | undefined> {
    return this.#state.kind === 'running' ? undefined : { reason: this.#state.reason };
  }

  async terminate(): Promise<void> {
    if (this.#state.kind !== 'ended') this.#state = { kind: 'ended', reason: TERMINATED };
    await this.endProcesses();
    await killTagged(TAG_VARIABLE, this.id);
    removeGroups(this.id);
  }

  /** A link may lead to another folder of the environment, but not out of them. */
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

interface LocalProgram {
  readonly argv: readonly string[];
  /** All variables of the program. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdin?: 'pipe' | string | Uint8Array | undefined;
  /** The owner's part of the tag with which all started processes are found. */
  readonly owner: string;
}

function startProgram({ argv, env, cwd, stdin, owner }: LocalProgram): Process {
  const tag = newProcessTag(owner);
  const child = begin(argv, {
    cwd,
    env: { ...env, ...tag.env },
    hasStdin: stdin !== undefined,
    killTree: (pid) => killTree(pid, tag, { ownGroup: true }),
  });
  const { pid, stdout, stderr } = child;
  const group = pid === undefined ? undefined : enterGroup(pid, tag.group);
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;
  const over = () => {
    isOver = true;
    clearTimeout(timer);
    group?.[Symbol.dispose]();
  };
  const exited = child.exited.finally(over).catch((error) => {
    throw notStarted(argv[0], error);
  });
  exited.catch(() => {}); // the caller gets the rejection
  return {
    stdin: writeStdin(child.stdin, stdin),
    stdout,
    stderr,
    exited,
    kill: ({ graceMs = GRACE_MS } = {}) => {
      if (isOver || pid === undefined) return;
      clearTimeout(timer);
      if (graceMs <= 0) return child.kill();
      void termTree(pid, tag);
      timer = setTimeout(child.kill, graceMs);
    },
  };
}

function begin(argv: readonly string[], options: StartOptions): ReturnType<typeof startProcess> {
  try {
    return startProcess(argv, options);
  } catch (error) {
    throw notStarted(argv[0], error);
  }
}

function notStarted(program: string | undefined, error: unknown): CellaError {
  const missing = systemCode(error) === 'ENOENT';
  const reason = missing ? 'the program does not exist' : messageOf(error);
  return new CellaError('EXEC_FAILED', `${JSON.stringify(program)} could not be started: ${reason}.`, {
    cause: error,
  });
}

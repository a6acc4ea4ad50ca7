/** An environment in a sandbox or container. Programs run inside; the host reaches the files in the same folders. */

import { Writable } from 'node:stream';
import { isDeepStrictEqual } from 'node:util';
import { CellaError } from '../protocol/errors.ts';
import type { ProgramSpec } from '../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { fileRights } from '../sandbox/sandbox-user.ts';
import {
  BaseEnvironment,
  checkProgram,
  type ExecOptions,
  GRACE_MS,
  newEnvironmentId,
  type Process,
  RESTARTED,
  readHandle,
  TERMINATED,
  writeStdin,
} from './environment.ts';
import {
  type EnvironmentFolders,
  type EnvironmentRoots,
  type MappedFolder,
  pathInside,
  sameFolder,
} from './files/environment-files.ts';
import type { FilesRoot } from './files/session-files.ts';
import { type ByteSink, type RunningProgram, toReadable } from './kernel-host.ts';

interface SandboxEnvironmentOptions {
  /** Opens a host around the same folders each time; called again after the previous host ended. */
  readonly open: () => Promise<EnvironmentSandbox>;
  /** Variables of every program, in addition to the host's own. */
  readonly env?: Readonly<Record<string, string>>;
}

interface EnvironmentIdentity {
  readonly id: string;
  readonly kind: SandboxEnvironment['kind'];
  readonly folders: EnvironmentFolders;
  readonly roots: EnvironmentRoots;
}

type SandboxState =
  | { kind: 'running'; sandbox: EnvironmentSandbox }
  | { kind: 'opening'; sandbox: Promise<EnvironmentSandbox>; reason: string }
  | { kind: 'left'; reason: string }
  | { kind: 'ended'; reason: string };

export class SandboxEnvironment extends BaseEnvironment {
  readonly kind: 'sandbox' | 'docker';
  readonly isolated = true;
  readonly #env: Readonly<Record<string, string>>;
  readonly #open: SandboxEnvironmentOptions['open'];
  #state: SandboxState;

  private constructor(
    { id, kind, folders, roots }: EnvironmentIdentity,
    { open, env = {} }: SandboxEnvironmentOptions,
    state: SandboxState,
  ) {
    super(id, folders, roots);
    this.kind = kind;
    this.#env = env;
    this.#open = open;
    this.#state = state;
  }

  static async create(options: SandboxEnvironmentOptions): Promise<SandboxEnvironment> {
    const sandbox = await options.open();
    try {
      const { kind, files: roots } = sandbox;
      const what = { id: newEnvironmentId(), kind, folders: foldersOf(sandbox), roots };
      return new SandboxEnvironment(what, options, { kind: 'running', sandbox });
    } catch (error) {
      await sandbox.close();
      throw error;
    }
  }

  /** Attaches to an environment whose process has ended. The first program opens a new host for it. */
  static async attach(handle: unknown, options: SandboxEnvironmentOptions): Promise<SandboxEnvironment> {
    const { id, kind, folders } = readHandle(handle, ['sandbox', 'docker']);
    if (kind === 'local') throw new CellaError('INVALID_OPTIONS', 'This is the handle of a local environment.');
    const roots = rootsOf(kind, folders);
    return new SandboxEnvironment({ id, kind, folders, roots }, options, { kind: 'left', reason: RESTARTED });
  }

  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<Process> {
    checkProgram(argv, options.env);
    const cwd = pathInside(this.folders, options.cwd ?? '');
    options.signal?.throwIfAborted();
    const sandbox = await this.#sandbox();
    const env = { ...this.#env, ...options.env };
    const input = options.stdin === undefined ? {} : ({ stdin: 'open' } as const);
    const link = await sandbox.exec({ argv, env, cwd, ...input }).catch(async (error) => {
      if (sandbox.failure) throw sandbox.failure;
      const end = await this.poll();
      throw end ? this.endedError(end.reason, error) : error;
    });
    const exited = link.exited.then((exit) => {
      if (exit.environmentEnded !== undefined && sandbox.failure) throw sandbox.failure;
      return exitOf(argv[0] ?? '', exit);
    });
    return this.track(executionOf(link, exited, options.stdin), options.signal);
  }

  async poll(): Promise<{ readonly reason: string } | undefined> {
    if (this.#state.kind === 'running' && !this.#state.sandbox.alive) {
      this.#state = { kind: 'ended', reason: `its ${this.kind === 'docker' ? 'container' : 'sandbox'} has ended` };
    }
    return this.#state.kind === 'running' ? undefined : { reason: this.#state.reason };
  }

  async terminate(): Promise<void> {
    const before = this.#state;
    if (before.kind !== 'ended') this.#state = { kind: 'ended', reason: TERMINATED };
    await this.endProcesses();
    if (before.kind === 'running') await before.sandbox.close();
    // #begin notices that the environment has ended, and closes the host.
    if (before.kind === 'opening') await before.sandbox.catch(() => {});
  }

  async #sandbox(): Promise<EnvironmentSandbox> {
    await this.poll();
    const state = this.#state;
    switch (state.kind) {
      case 'running':
        return state.sandbox;
      case 'opening':
        return await state.sandbox;
      case 'left': {
        const sandbox = this.#begin(state.reason);
        this.#state = { kind: 'opening', sandbox, reason: state.reason };
        return await sandbox;
      }
      case 'ended':
        throw this.endedError(state.reason);
    }
  }

  async #begin(reason: string): Promise<EnvironmentSandbox> {
    try {
      const sandbox = await this.#open();
      const same = sandbox.kind === this.kind && isDeepStrictEqual(foldersOf(sandbox), this.folders);
      if (same && this.#state.kind !== 'ended') {
        this.#state = { kind: 'running', sandbox };
        return sandbox;
      }
      await sandbox.close();
      if (this.#state.kind === 'ended') throw this.endedError(this.#state.reason);
      throw new CellaError('INVALID_OPTIONS', `The environment ${this.id} has other folders than its handle says.`);
    } catch (error) {
      if (this.#state.kind === 'opening') this.#state = { kind: 'left', reason };
      throw error;
    }
  }
}

/** How the host reaches the files of an environment that is not open. */
function rootsOf(kind: SandboxEnvironment['kind'], { workspace, home }: EnvironmentFolders): EnvironmentRoots {
  const rootOf = (folder: MappedFolder): FilesRoot => {
    const { host: path, inside } = folder;
    const id = sameFolder(folder);
    const rights = process.getuid?.() === 0 ? fileRights(path, home.host, kind === 'docker') : undefined;
    return { path, inside, id, rights };
  };
  return { workspace: rootOf(workspace), home: rootOf(home) };
}

function foldersOf({ files, paths }: EnvironmentSandbox): EnvironmentFolders {
  const folder = ({ path, id }: FilesRoot, inside: string) => ({ host: path, inside, ...(id && { id }) });
  return {
    workspace: folder(files.workspace, paths.workspace),
    home: folder(files.home, paths.home),
    app: paths.app,
    bundledMcp: `${paths.app}/mcp`,
  };
}

function executionOf(link: RunningProgram, exited: Promise<ProcessExit>, stdin: ExecOptions['stdin']): Process {
  exited.catch(() => {}); // the caller gets the rejection
  return {
    stdin: writeStdin(link.stdin && toWritable(link.stdin), stdin),
    stdout: toReadable(link.stdout, link.exited),
    stderr: toReadable(link.stderr, link.exited),
    exited,
    kill: ({ graceMs = GRACE_MS } = {}) => link.kill({ graceMs }),
  };
}

function exitOf(program: string, { problem, ...exit }: Awaited<RunningProgram['exited']>): ProcessExit {
  if (problem !== undefined) {
    throw new CellaError('EXEC_FAILED', `${JSON.stringify(program)} could not be started: ${problem}.`);
  }
  if (exit.code !== undefined) return { code: exit.code };
  // With any other signal, one of its children ran out of memory, and this process ended for its own reason.
  return exit.outOfMemory && exit.signal === 'SIGKILL'
    ? { signal: exit.signal, outOfMemory: true }
    : { signal: exit.signal };
}

/** What a SandboxEnvironment runs in. `openAgentSandbox` opens one. */
export interface EnvironmentSandbox {
  readonly kind: 'sandbox' | 'docker';
  /** Paths inside the sandbox. */
  readonly paths: { readonly app: string; readonly workspace: string; readonly home: string };
  /** How the host reaches their files. */
  readonly files: { readonly workspace: FilesRoot; readonly home: FilesRoot };
  /** Whether it can still run programs. */
  readonly alive: boolean;
  /** Why isolation failed: then nothing has started. It may be known only after the sandbox was opened. */
  readonly failure?: Error | undefined;
  exec(program: ProgramSpec): Promise<RunningProgram>;
  close(): Promise<void>;
}

function toWritable(sink: ByteSink): Writable {
  return new Writable({
    write(chunk: Uint8Array, _encoding, done) {
      sink.write(chunk).then(() => done(), done);
    },
    final(done) {
      sink.end();
      done();
    },
  });
}

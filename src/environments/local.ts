/** The local environment: programs are plain children of this process, under its own user. For trusted use: nothing is isolated. */

import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import { killTagged, removeGroups } from '../sandbox/process-tree.ts';
import { folderId } from '../sandbox/spec.ts';
import type { EnvironmentHandle, EnvironmentPrimitive, ExecOptions, Execution } from './contract.ts';
import { EnvironmentFiles } from './environment-files.ts';
import { Executions } from './executions.ts';
import type { FilesRoot } from './files/files.ts';
import { type EnvironmentFolders, insideOf, type MappedFolder, realFolder } from './folders.ts';
import { newEnvironmentId, RESTARTED, readHandle, TERMINATED } from './handle.ts';
import { startLocal } from './local-process.ts';
import { checkProgram, PLAIN_ENV } from './program.ts';

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
const MARK = 'CELLA_ENVIRONMENT';

const rootOf = ({ host, inside }: MappedFolder): FilesRoot => ({ path: host, inside, id: folderId(host) });

type State = { kind: 'running' } | { kind: 'left'; reason: string } | { kind: 'ended'; reason: string };

export class LocalEnvironment extends EnvironmentFiles implements EnvironmentPrimitive {
  readonly kind = 'local';
  readonly isolated = false;
  readonly #id: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #running = new Executions();
  #state: State;

  private constructor(id: string, folders: EnvironmentFolders, env: LocalOptions['env'], state: State) {
    const { workspace, home } = folders;
    // Its programs have the rights of this process too.
    super(folders, { workspace: rootOf(workspace), home: rootOf(home) });
    this.#id = id;
    this.#env = { ...PLAIN_ENV, HOME: folders.home.inside, ...env, [MARK]: id };
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
    killTagged(MARK, id);
    removeGroups(id);
    return new LocalEnvironment(id, folders, env, { kind: 'left', reason: RESTARTED });
  }

  getId(): string {
    return this.#id;
  }

  handle(): EnvironmentHandle {
    return { kind: this.kind, id: this.#id, folders: this.folders };
  }

  async exec(argv: readonly string[], options: ExecOptions = {}): Promise<Execution> {
    if (this.#state.kind === 'ended') {
      throw new CellaError('ENVIRONMENT_ENDED', `The environment ${this.#id} has ended: ${this.#state.reason}.`);
    }
    checkProgram(argv, options.env);
    options.signal?.throwIfAborted();
    const cwd = this.#folderOf(options.cwd ?? '');
    this.#state = { kind: 'running' };
    const env = { ...this.#env, ...options.env, [MARK]: this.#id };
    return this.#running.add(startLocal({ argv, env, cwd, stdin: options.stdin, owner: this.#id }), options.signal);
  }

  async isRunning(): Promise<boolean> {
    return this.#state.kind === 'running';
  }

  async poll(): Promise<{ readonly reason: string } | undefined> {
    return this.#state.kind === 'running' ? undefined : { reason: this.#state.reason };
  }

  async terminate(): Promise<void> {
    if (this.#state.kind !== 'ended') this.#state = { kind: 'ended', reason: TERMINATED };
    await this.#running.end();
    killTagged(MARK, this.#id);
    removeGroups(this.#id);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.terminate();
  }

  /** A link may lead from one folder of the environment to another, and not out of them. */
  #folderOf(cwd: string): string {
    const path = insideOf(this.folders, cwd);
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

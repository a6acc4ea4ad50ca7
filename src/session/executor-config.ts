/** Turns checked options into what an executor needs: its kind, folders, identity, environment variables, limits. */

import { delimiter, dirname, join, resolve } from 'node:path';
import { removeFolder } from '../environments/files/remove-tree.ts';
import type { FilesRoot } from '../environments/files/session-files.ts';
import type { Executor, KernelHost, SpareSpec } from '../environments/kernel-host.ts';
import { SubprocessExecutor } from '../environments/subprocess/subprocess-executor.ts';
import { findPython } from '../interpreter/find-python.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { newProcessIdentity, processState } from '../lib/process-identity.ts';
import { MemoizedByKey } from '../lib/single-flight.ts';
import type { ExecutorKind } from '../protocol/enums.ts';
import type { EnvironmentSpec, FolderId, Mount } from '../protocol/environment-spec.ts';
import type { ErrorCode } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import { limitsToSpec, PACKAGES_INSIDE, policyOf } from '../protocol/sandbox-policy.ts';
import { type AgentMounts, agentMounts, checkAgentMounts } from '../sandbox/mount-points.ts';
import { checkFoldersAnswer, readableFolder, resolveFolder, writableFolder } from '../sandbox/named-folders.ts';
import { type FileRights, fileRights } from '../sandbox/sandbox-user.ts';
import { readProcessConfig } from '../settings/process-config.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/validation.ts';
import {
  claimKeyFolder,
  discardUnclaimedFolder,
  ensureKeyFolder,
  ensurePackageFolder,
  enterKeyFolder,
  folderExists,
  hasPackageSets,
  isKeyFolderUnused,
  KEY_FOLDER_INSIDE,
  type KeyFolder,
  makeUnclaimedFolder,
  type PackageFolderStat,
  sweepUnclaimedFolders,
} from './data-folders.ts';
import type { CheckedOptions } from './session-options.ts';
import type { ExecutorFactory } from './shared-resources.ts';

/** The sandbox of one session, before it is opened. */
export class ExecutorConfig {
  readonly executorChoice: ChosenExecutor;
  /** Environment variables of the code. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder, inside the sandbox, of the package set that kernels start with. */
  packages: string | undefined;
  /** The folder of all package sets, on the host and inside the sandbox. */
  readonly packageFolder: { readonly path: string; readonly inside: string };
  readonly #packageFacts: PackageFolderStat;
  /** Whether the code cannot see the host's folders. */
  readonly isolated: boolean;
  /** Whether the code runs as a user of its own. */
  readonly #ownUser: boolean;
  #root: string;
  #sharesWorkspace = false;
  /** The key that owns the folder. */
  agentKey: string;
  readonly #customCwd: string | undefined;
  readonly #customCwdId: FolderId | undefined;
  readonly #hasOwnStorage: boolean;
  readonly #shared: Pick<EnvironmentSpec, 'network' | 'readable' | 'writable' | 'limits'>;
  #specKey: string | undefined;
  readonly #options: CheckedOptions;

  private constructor(options: CheckedOptions, recipe: ChosenExecutor, dataDir: string) {
    const policy = policyOf(options.sandbox);
    this.#options = options;
    this.executorChoice = recipe;
    // Without a sandbox the code sees the host's own paths.
    this.isolated = recipe.kind !== 'subprocess' || options.sandbox !== 'off';
    const root = recipe.kind !== 'in-process' && this.isolated && process.getuid?.() === 0;
    this.#ownUser = root;
    this.agentKey = options.agentKey;
    this.#root = join(dataDir, 'agents', folderName(options.agentKey));
    const folder = (option: string) => (path: string) => resolveFolder(path, option, dataDir, options.folderLinks);
    this.#customCwd = options.cwd === undefined ? undefined : folder('cwd')(resolve(options.cwd));
    const facts = (path: string) => ({ root, recorded: options.folderIds?.[path] });
    const toReadable = (path: string): Mount => readableFolder(path, facts(path));
    const toWritable = (path: string): Mount => writableFolder(path, facts(path));
    const readable = policy.readable.map(folder('sandbox.readable')).map(toReadable);
    const writable = policy.writable.map(folder('sandbox.writable')).map(toWritable);
    if (this.#customCwd !== undefined) {
      const elsewhere = toWritable(this.#customCwd);
      writable.unshift(elsewhere);
      this.#customCwdId = elsewhere.id;
    }
    const packageFolder = join(dataDir, 'packages');
    this.packageFolder = { path: packageFolder, inside: this.isolated ? PACKAGES_INSIDE : packageFolder };
    this.#packageFacts = ensurePackageFolder(packageFolder);
    readable.push({ path: packageFolder, at: PACKAGES_INSIDE });
    this.#hasOwnStorage = options.storage !== undefined;
    this.#shared = { network: policy.network, readable, writable, limits: limitsToSpec(options.limits) };
    // Without a sandbox it has no other path.
    this.env = this.isolated ? options.env : { HOME: this.home, ...options.env };
  }

  static async prepare(options: CheckedOptions, dataDir: string): Promise<ExecutorConfig> {
    await checkFoldersAnswer(options);
    return new ExecutorConfig(options, await chooseExecutor(options, dataDir), dataDir);
  }

  /** Rejects if a folder that the session names does not answer. */
  checkFolders(): Promise<void> {
    return checkFoldersAnswer(this.#options);
  }

  /** Works in the folder of another key, which it was forked from. */
  useWorkspaceOf(agentKey: string, dataDir: string): void {
    this.#sharesWorkspace = true;
    this.agentKey = agentKey;
    this.#root = join(dataDir, 'agents', folderName(agentKey));
  }

  /** For a fork in the same folder, whose kernels may start with other packages. */
  forFork(options: CheckedOptions, dataDir: string): ExecutorConfig {
    const fork = new ExecutorConfig(options, this.executorChoice, dataDir);
    fork.useWorkspaceOf(this.agentKey, dataDir);
    fork.packages = this.packages;
    return fork;
  }

  /** The folder that the caller named, if any. */
  get customCwd(): string | undefined {
    return this.#customCwd;
  }

  /** Whether any package set was ever made here. */
  hasPackages(): boolean {
    return hasPackageSets(this.packageFolder.path, this.#packageFacts);
  }

  /** Call it for each session that works in its folder. Returns the function to call when the session ends. */
  enterWorkspace(): () => void {
    return enterKeyFolder(this.#root);
  }

  /** After a key was destroyed: its folder is removed with the last session that works in it. */
  async removeWorkspace(agentKey: string, records: RecordStore | undefined): Promise<void> {
    const others =
      records &&
      (async () => {
        for await (const { agentKey: key, workspaceOf = key } of records.list()) {
          if (workspaceOf === this.agentKey) return true;
        }
        return false;
      });
    if (await isKeyFolderUnused(this.#root, agentKey === this.agentKey, others)) await removeFolder(this.#root);
  }

  /** The folder, on the host, that the code works in. */
  get cwd(): string {
    return this.#customCwd ?? join(this.#root, 'workspace');
  }

  /** Access to the files of that folder. */
  get files(): FilesRoot {
    const inside = this.#customCwd ?? join(this.isolated ? KEY_FOLDER_INSIDE : this.#root, 'workspace');
    return { path: this.cwd, inside, id: this.#customCwdId, rights: this.#rightsIn(this.cwd) };
  }

  /** Access to the files of its home. */
  get homeFiles(): FilesRoot {
    return {
      path: this.home,
      inside: join(this.isolated ? KEY_FOLDER_INSIDE : this.#root, 'home'),
      rights: this.#rightsIn(this.home),
    };
  }

  #rightsIn(path: string): FileRights | undefined {
    return this.#ownUser ? fileRights(path, this.home, this.executorChoice.kind === 'container') : undefined;
  }

  /** Its home, on the host. */
  get home(): string {
    return join(this.#root, 'home');
  }

  /** The sandbox of a coding agent, next to that of the kernels. No kernel runs in it. */
  agentSpec(folders: AgentMounts): EnvironmentSpec {
    const own = this.#spec(ensureKeyFolder(this.#root, this.#ownUser));
    checkAgentMounts([...own.readable, ...own.writable]);
    const readable = [...own.readable, ...agentMounts(folders, this.#ownUser)];
    return { ...own, readable, limits: { ...own.limits, memoryCounts: 'used' } };
  }

  /** Opens a sandbox for this session: a spare one if available and this is the key's first, otherwise a new one. */
  async open(
    executor: Executor,
  ): Promise<{ environment: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }> {
    const missing = !folderExists(this.#root);
    // The saves may be elsewhere: in another key's folder that this key shares, or in its own storage.
    const fresh = missing && !this.#sharesWorkspace && !this.#hasOwnStorage;
    if (missing) {
      const spare = executor.spares.take(this.specKey);
      if (spare) {
        // It wakes up while the folder is renamed.
        const first = spare.host.startKernel({ env: this.env, packages: this.packages });
        if (claimKeyFolder(spare.spec.folder.path, this.#root)) {
          spare.host.moveWorkspace?.(this.#root);
          return { environment: spare.host, first, fresh };
        }
        await spare.host.close();
        discardUnclaimedFolder(spare.spec.folder.path);
      }
    }
    return { environment: await executor.open(this.#spec(ensureKeyFolder(this.#root, this.#ownUser))), fresh };
  }

  /** Spare sandboxes for other keys with the same options. */
  spares(count: number): SpareSpec {
    const keyFolders = dirname(this.#root);
    return {
      specKey: this.specKey,
      count,
      make: () => {
        sweepUnclaimedFolders(keyFolders);
        return this.#spec(makeUnclaimedFolder(keyFolders, this.#ownUser));
      },
      discard: (spec) => discardUnclaimedFolder(spec.folder.path),
    };
  }

  /** Equal for sessions that differ only in their key. */
  get specKey(): string {
    this.#specKey ??= JSON.stringify([dirname(this.#root), this.#customCwd, this.#shared]);
    return this.#specKey;
  }

  #spec(home: KeyFolder): EnvironmentSpec {
    const { path: own, uid, gid, owner } = home;
    const inside = this.isolated ? KEY_FOLDER_INSIDE : own;
    const folder = { path: own, at: inside, owner };
    return {
      ...this.#shared,
      uid,
      gid,
      folder,
      writable: [folder, ...this.#shared.writable],
      home: join(inside, 'home'),
      cwd: this.#customCwd ?? join(inside, 'workspace'),
    };
  }
}

interface ChosenExecutor extends ExecutorFactory {
  readonly kind: ExecutorKind;
}

const MB = 1024 * 1024;

export async function chooseExecutor(options: CheckedOptions, dataDir: string): Promise<ChosenExecutor> {
  const { preload, startTimeoutMs } = options;
  if (options.executor === 'container') {
    const { ContainerExecutor } = await import('../environments/container/container-executor.ts');
    const { image } = options;
    const { engine = readProcessConfig().engine } = options;
    const { runtimeDir } = readProcessConfig();
    const config = { image, engine, runtimeDir, dataDir, preload, startTimeoutMs, env: variables() };
    const owner = { self: newProcessIdentity(), stateOf: processState };
    return choice('container', config, () => new ContainerExecutor(config, owner));
  }
  if (options.executor === 'in-process') {
    const { InProcessExecutor } = await import('../environments/in-process/in-process-executor.ts');
    const memoryBytes = options.limits.memoryMb * MB;
    const config = { dataDir, preload, startTimeoutMs, memoryBytes, env: variables() };
    return choice('in-process', config, () => new InProcessExecutor(config));
  }
  const isolated = options.sandbox !== 'off';
  if (isolated) requireLinux();
  const python = await locatePython(options.python);
  const { cgroup } = policyOf(options.sandbox);
  const root = isolated && process.getuid?.() === 0;
  const path = [dirname(python), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter);
  const config = {
    python,
    sandbox: isolated ? ('on' as const) : ('off' as const),
    cgroup: cgroup ?? (root ? ('required' as const) : ('if-available' as const)),
    preload,
    env: { ...variables(), PATH: path },
    startTimeoutMs,
  };
  return choice('subprocess', config, () => new SubprocessExecutor(config));
}

function choice(kind: ExecutorKind, config: object, make: ExecutorFactory['make']): ChosenExecutor {
  return { kind, key: JSON.stringify([kind, config]), make };
}

/** Nothing from the host's environment: no key, token or path reaches the code. */
function variables(): Record<string, string> {
  return {
    HOME: join(KEY_FOLDER_INSIDE, 'home'),
    USER: 'cella',
    LOGNAME: 'cella',
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    MPLBACKEND: 'agg',
    // A kernel with threads of a native library cannot fork, so neither rollback nor checkpoints would work.
    OPENBLAS_NUM_THREADS: '1',
    OMP_NUM_THREADS: '1',
    MKL_NUM_THREADS: '1',
  };
}

const located = new MemoizedByKey<string | undefined, string>();

export function locatePython(named: string | undefined): Promise<string> {
  const wanted = named ?? readProcessConfig().python;
  return located.get(wanted, () => findPython(wanted));
}

/** Errors about what the machine lacks, not about what the caller did wrong. */
const missingFromMachine: readonly ErrorCode[] = ['PYTHON_NOT_FOUND', 'SANDBOX_UNAVAILABLE'];

const EXECUTOR_ADVICE =
  'Two alternatives: executor: "container" isolates the code with Docker or Podman instead; executor: "in-process" runs ' +
  'trusted code in WebAssembly, which needs no Python and isolates nothing.';

/** Another executor is never chosen automatically: one isolates less, the other needs a trusted engine. */
export async function withExecutorAdvice<T>(executor: CheckedOptions['executor'], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (executor !== 'auto' || !(error instanceof CellaError) || !missingFromMachine.includes(error.code)) throw error;
    const details = { ...error.details, waysOut: ['container', 'in-process'] };
    throw new CellaError(error.code, `${error.message} ${EXECUTOR_ADVICE}`, { cause: error, details });
  }
}

/** The isolation layers are Linux features. */
export function requireLinux(platform: string = process.platform): void {
  if (platform === 'linux') return;
  const message = `Sandboxed processes need Linux; this is ${platform}.`;
  throw new CellaError('SANDBOX_UNAVAILABLE', message, { details: { platform } });
}

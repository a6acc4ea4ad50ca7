/** The host side of the four namespaces, of a session or of a storage without a kernel. Each loads on first use. */

import { join } from 'node:path';
import { probePython } from '../interpreter/find-python.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { memoize } from '../lib/single-flight.ts';
import type { Artifacts } from '../namespaces/artifacts/artifacts-namespace.ts';
import type { Deps } from '../namespaces/deps/deps-namespace.ts';
import { PackageSource, type PackageSourceOptions } from '../namespaces/deps/package-source.ts';
import type { HostMethods, NamespaceCallContext } from '../namespaces/host-methods.ts';
import type { ParserHelper } from '../namespaces/skills/skill-parser.ts';
import type { Skills } from '../namespaces/skills/skills-namespace.ts';
import type { CredentialLookup } from '../namespaces/tools/tool-credentials.ts';
import type { Tools } from '../namespaces/tools/tools-namespace.ts';
import type { CodeRefusal } from '../protocol/access-models.ts';
import type { Interpreter } from '../protocol/environment-spec.ts';
import type { ErrorCode } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Approve } from '../protocol/permission.ts';
import type { CommandRunner } from '../protocol/process.ts';
import type { PyValue } from '../protocol/py-values.ts';
import { PACKAGES_INSIDE } from '../protocol/sandbox-policy.ts';
import { readNamespaceLimit, readProcessConfig } from '../settings/process-config.ts';
import type { Storage } from '../storage/contract.ts';
import type { NamespacesApi, WorkOptions } from './api.ts';
import { dataFolder } from './data-folders.ts';
import { chooseExecutor, locatePython } from './executor-config.ts';
import { type CheckedOptions, checkOptions, type SessionOptions } from './session-options.ts';
import { type AcquiredStorage, acquireExecutor, acquireStorage } from './shared-resources.ts';

interface SessionNamespacesOptions {
  /** Called on first use, and again if opening failed. */
  readonly acquireStorage: () => AcquiredStorage;
  /** The interpreter of the kernels: on the host, or elsewhere. */
  readonly python: string | (() => Promise<Interpreter>);
  /** A Python on the host that parses skills without running them. */
  readonly readerPython: () => Promise<string>;
  /** The folder of package sets, on the host and inside the sandbox. */
  readonly packageFolder: { readonly path: string; readonly inside: string };
  readonly packages: PackageSource;
  readonly allowRuntimeDeps: boolean;
  readonly artifactLimitMb: number;
  readonly toolFolders: readonly string[];
  /** Runs programs in the sandbox of the session. */
  readonly sandboxed: CommandRunner;
  readonly approve?: Approve | undefined;
  readonly credentials?: CredentialLookup | undefined;
  /** Called before each call of the code. */
  readonly admitCall?: (() => Promise<void>) | undefined;
  /** Called for each refused call of the code. */
  readonly onRefused?: ((refusal: CodeRefusal) => void) | undefined;
  /** Called with the package folder of kernels that start from now on. */
  readonly onPackages: (folder: string | undefined) => void;
}

const MB = 1024 * 1024;
/** Error codes that mean a refusal, not a mistake of the code. */
const REFUSALS: Partial<Record<ErrorCode, CodeRefusal['kind']>> = {
  FORBIDDEN: 'namespace',
  APPROVAL_REFUSED: 'permission',
};

export class SessionNamespaces implements NamespacesApi {
  readonly #options: SessionNamespacesOptions;
  readonly #ends = new AsyncDisposableStack();
  readonly #openStorage = memoize(() => this.#acquireStorage());
  readonly #openTools = memoize(() => this.#makeTools());
  readonly #openSkills = memoize(() => this.#makeSkills());
  readonly #openArtifacts = memoize(() => this.#makeArtifacts());
  readonly #openDeps = memoize(() => this.#makeDeps());

  constructor(options: SessionNamespacesOptions) {
    this.#options = options;
  }

  readonly tools: NamespacesApi['tools'] = {
    list: async () => (await this.#openTools()).list(),
    search: async (query, options) => (await this.#openTools()).search(query, options),
    describe: async (name) => (await this.#openTools()).describe(name),
    create: async (yaml, options) => (await this.#openTools()).create(yaml, options),
    delete: async (name) => (await this.#openTools()).delete(name),
    problems: async () => (await this.#openTools()).problems(),
    call: async (name, named, { recipe, positional = [], approved = false, ...options } = {}) => {
      const tools = await this.#openTools();
      const given = { name, recipe, positional: [...positional], named };
      return await tools.call(given, { ...contextOf(options), ...(approved ? { approved } : {}) });
    },
  };

  readonly skills: NamespacesApi['skills'] = {
    list: async () => (await this.#openSkills()).list(),
    get: async (name) => (await this.#openSkills()).get(name),
    search: async (query, options) => (await this.#openSkills()).search(query, options),
    create: async (skill, options) => (await this.#openSkills()).create(skill, options),
    delete: async (name) => (await this.#openSkills()).delete(name),
    problems: async () => (await this.#openSkills()).problems(),
  };

  readonly artifacts: NamespacesApi['artifacts'] = {
    list: async (page) => (await this.#openArtifacts()).list(page),
    get: async (name) => (await this.#openArtifacts()).get(name),
    exists: async (name) => (await this.#openArtifacts()).exists(name),
    save: async (name, content, facts) => (await this.#openArtifacts()).save(name, content, facts),
    load: async (name) => (await this.#openArtifacts()).load(name),
    delete: async (name) => (await this.#openArtifacts()).delete(name),
  };

  readonly deps: NamespacesApi['deps'] = {
    list: async () => (await this.#openDeps()).list(),
    status: async () => (await this.#openDeps()).status(),
    add: (requirements, options) => this.#change((deps) => deps.add(requirements, contextOf(options))),
    remove: (name, options) => this.#change((deps) => deps.remove(name, contextOf(options))),
    sync: (options) => this.#change((deps) => deps.sync(contextOf(options))),
  };

  /** False for an unconfirmed fork, whose code may not use what belongs to its user. */
  async mayUsePackages(): Promise<boolean> {
    try {
      await this.#options.admitCall?.();
      return true;
    } catch (error) {
      if (error instanceof CellaError && error.code === 'FORK_UNCONFIRMED') return false;
      throw error;
    }
  }

  /** The folder of the configured packages, if they are installed. Installs nothing. */
  async currentPackages(): Promise<string | undefined> {
    if (!(await this.mayUsePackages())) return undefined;
    const storage = await this.#openStorage();
    if ((await storage.deps.list()).length === 0) return undefined;
    const deps = await this.#openDeps();
    const set = await deps.current();
    return set === undefined ? undefined : await deps.kernelPath(set);
  }

  /** Handles the calls of one kernel. */
  handler(): CallHandler {
    let artifacts: Promise<{ readonly methods: HostMethods; closeAll(): Promise<void> }> | undefined;
    const openHandles = memoize(async () => (await this.#openArtifacts()).methods());
    // Building their schemas takes longer than most calls.
    const tools = memoize(async () => (await this.#openTools()).methods());
    const skills = memoize(async () => (await this.#openSkills()).methods());
    const deps = memoize(async () => (await this.#openDeps()).methods());
    const methodsOf = async (namespace: string): Promise<HostMethods> => {
      if (namespace === 'tools') return await tools();
      if (namespace === 'skills') return await skills();
      if (namespace === 'deps') return await deps();
      if (namespace !== 'artifacts') return {};
      artifacts = openHandles();
      return (await artifacts).methods;
    };
    return {
      call: async (name, params, context) => {
        try {
          await this.#options.admitCall?.();
          const methods = await methodsOf(name.slice(0, name.indexOf('.')));
          const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
          if (!method) throw noCall(name);
          const result = await method.perform(params, context);
          if (name.startsWith('deps.')) this.#notePackages(result);
          return result;
        } catch (error) {
          this.#reportRefused(name, error);
          throw error;
        }
      },
      close: () => void artifacts?.then((opened) => opened.closeAll()).catch(() => {}), // unfinished uploads leave nothing behind
    };
  }

  async close(): Promise<void> {
    await this.#ends.disposeAsync();
  }

  #reportRefused(name: string, error: unknown): void {
    if (!(error instanceof CellaError)) return;
    const { code, details } = error;
    const kind = details.refused === 'namespace' ? 'namespace' : REFUSALS[code];
    if (kind) this.#options.onRefused?.({ kind, detail: name.slice(0, 100), code });
  }

  async #acquireStorage(): Promise<Storage> {
    const { resource, release } = this.#options.acquireStorage();
    this.#keep(release);
    return await resource;
  }

  async #makeTools(): Promise<Tools> {
    const [{ Tools }, { HostCommands }, storage] = await Promise.all([
      import('../namespaces/tools/tools-namespace.ts'),
      import('../namespaces/tools/host-command.ts'),
      this.#openStorage(),
    ]);
    const { toolFolders: folders, sandboxed, approve, credentials } = this.#options;
    // Tools that run on the host find the operator's programs.
    const { searchPath: path, home } = readProcessConfig();
    const hostOptions = { path, home };
    const host = new HostCommands(hostOptions);
    const tools = new Tools({ store: storage.tools, folders, sandboxed, host, hostOptions, approve, credentials });
    this.#keep(() => tools.close());
    return tools;
  }

  async #makeSkills(): Promise<Skills> {
    const [{ Skills }, { PythonSkillParser }, storage] = await Promise.all([
      import('../namespaces/skills/skills-namespace.ts'),
      import('../namespaces/skills/skill-parser.ts'),
      this.#openStorage(),
    ]);
    const reader = new PythonSkillParser({
      python: this.#options.readerPython,
      fallback: readInWebAssembly,
      cached: true,
    });
    this.#keep(() => reader.close());
    return new Skills({ store: storage.skills, reader, most: readNamespaceLimit('skills') });
  }

  async #makeArtifacts(): Promise<Artifacts> {
    const [{ Artifacts }, storage] = await Promise.all([
      import('../namespaces/artifacts/artifacts-namespace.ts'),
      this.#openStorage(),
    ]);
    const limitBytes = this.#options.artifactLimitMb * MB;
    return new Artifacts({ store: storage.artifacts, limitBytes, most: readNamespaceLimit('artifacts') });
  }

  async #makeDeps(): Promise<Deps> {
    const [{ Deps }, { PackageSets }, storage] = await Promise.all([
      import('../namespaces/deps/deps-namespace.ts'),
      import('../namespaces/deps/package-sets.ts'),
      this.#openStorage(),
    ]);
    const { python, packages: source, packageFolder, allowRuntimeDeps: allowRuntime } = this.#options;
    const sets = new PackageSets({ folder: packageFolder.path, inside: packageFolder.inside, python, source });
    this.#keep(() => sets.close());
    return new Deps({ store: storage.deps, sets, allowRuntime });
  }

  /** Registers what to close with the session; closes it at once if the session is closed. */
  #keep(end: () => void | Promise<void>): void {
    if (!this.#ends.disposed) {
      this.#ends.defer(end);
      return;
    }
    void Promise.resolve(end()).catch(() => {}); // nothing has used it
    throw new CellaError('SESSION_CLOSED', 'The session was closed.');
  }

  async #change(work: (deps: Deps) => ReturnType<Deps['sync']>): ReturnType<Deps['sync']> {
    const deps = await this.#openDeps();
    const result = await work(deps);
    this.#options.onPackages(result.set === null ? undefined : await deps.kernelPath(result.set));
    return result;
  }

  /** Records that kernels started from now on use the packages that the code has changed. */
  #notePackages(result: PyValue): void {
    if (result === null || typeof result !== 'object' || !('path' in result)) return;
    this.#options.onPackages(typeof result.path === 'string' ? result.path : undefined);
  }
}

/** For a host without Python. */
async function readInWebAssembly(program: string): Promise<ParserHelper> {
  const { TextProgram } = await import('../environments/in-process/text-program.ts');
  return await TextProgram.start(program);
}

/** A kernel's proxies never make such a call, so the code calls the host directly. */
function noCall(name: string): CellaError {
  const details = { refused: 'namespace' };
  return new CellaError('INVALID_OPTIONS', `There is no call ${JSON.stringify(name.slice(0, 100))}.`, { details });
}

function contextOf({ signal, onProgress }: WorkOptions = {}): NamespaceCallContext {
  return {
    signal: signal ?? new AbortController().signal,
    progress: (text) => onProgress?.(text),
    whileAsking: (work) => work(),
  };
}

export interface OpenNamespacesOptions {
  readonly dataDir?: string | undefined;
  /** In place of the storage in the data folder. The caller closes it. */
  readonly storage?: Storage | undefined;
  readonly python?: string | undefined;
  /** The executor whose Python the packages are for. */
  readonly executor?: SessionOptions['executor'] | undefined;
  readonly image?: string | undefined;
  readonly engine?: string | undefined;
  readonly packages?: PackageSourceOptions | undefined;
  readonly toolFolders?: readonly string[] | undefined;
  /** Secrets for tools. */
  readonly credentials?: SessionOptions['credentials'] | undefined;
}

export type OpenedNamespaces = NamespacesApi & AsyncDisposable;

export async function openNamespaces(options: OpenNamespacesOptions = {}): Promise<OpenedNamespaces> {
  const dataDir = dataFolder(options.dataDir);
  const { python, executor, image, engine } = options;
  const checked = checkOptions({ python, executor, image, engine });
  const namespaces = new SessionNamespaces({
    acquireStorage: () => acquireStorage(options.storage, dataDir),
    python: () => interpreterFor(checked, dataDir),
    readerPython: () => locatePython(python),
    packageFolder: { path: join(dataDir, 'packages'), inside: PACKAGES_INSIDE },
    packages: PackageSource.parse(options.packages ?? {}),
    allowRuntimeDeps: true,
    artifactLimitMb: 1_048_576,
    toolFolders: options.toolFolders ?? [],
    credentials: options.credentials,
    sandboxed: {
      run: async ({ argv }) => {
        throw new CellaError(
          'TOOL_FAILED',
          `${argv[0]} runs in a sandbox, but there is no session here. Open a session.`,
        );
      },
    },
    onPackages: () => {},
  });
  return Object.assign(namespaces, { [Symbol.asyncDispose]: () => namespaces.close() });
}

/** Only needed to install packages, not to list them. */
async function interpreterFor(options: CheckedOptions, dataDir: string): Promise<Interpreter> {
  const { executor: kind, python } = options;
  if (kind === 'auto' || kind === 'subprocess') return await probePython(await locatePython(python));
  const { resource, release } = acquireExecutor(await chooseExecutor(options, dataDir));
  try {
    return await resource.interpreter();
  } finally {
    release();
  }
}

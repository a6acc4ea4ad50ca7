/**
 * Package sets: read-only folders of installed packages, one per list of requirements, shared by all kernels. A set is
 * installed, checked and described in a staging folder, and then published by a rename.
 */

import { createHash, randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { z } from 'zod';
import { probePython } from '../../interpreter/find-python.ts';
import { sortedInSlices } from '../../lib/event-loop.ts';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { entriesOf, filesBelow } from '../../lib/large-folders.ts';
import { messageOf } from '../../lib/values.ts';
import type { Interpreter } from '../../protocol/environment-spec.ts';
import { packageName, parseRequirement } from '../../protocol/requirement.ts';
import { PACKAGES_INSIDE } from '../../protocol/sandbox-policy.ts';
import {
  copyReadOnly,
  folderError,
  type InstallWorkspace,
  openInstallWorkspace,
  sweepInstallWorkspaces,
} from './install-workspace.ts';
import {
  findForeignInstaller,
  findInstaller,
  installerSearchPath,
  type ProbeContext,
  requirementsText,
} from './installers.ts';
import { PackageSource, type PackageSourceOptions, sourceKey } from './package-source.ts';
import { checkInterpreter, isPure, pureOnly } from './resolver/python-target.ts';
import { NATIVE, readSmall } from './resolver/wheel.ts';
import { builtInInstaller, type Installer, type InstallFailure, programInstaller } from './run-installer.ts';
import { type InstallWaiter, installAborted, type PackageProgress, SharedInstalls } from './shared-installs.ts';

export interface PackageSetsOptions {
  /** `<dataDir>/packages`; created if missing. */
  readonly folder: string;
  /** The path of that folder inside kernels; `PACKAGES_INSIDE` by default. */
  readonly inside?: string;
  /** The Python of the kernels: a program on the host, or the facts of a Python elsewhere. */
  readonly python: string | (() => Promise<Interpreter>);
  readonly source?: PackageSourceOptions;
  /** The timeout of one run of the installer. */
  readonly timeoutMs?: number;
  /** Folders that are searched for uv and for a Python with pip, in addition to `python`; PATH by default. */
  readonly searchPath?: string;
}

type SetResult = { readonly kind: 'built'; readonly set: string } | ({ readonly kind: 'failed' } & InstallFailure);

const TEN_MINUTES = 600_000;

export class PackageSets implements AsyncDisposable {
  readonly #options: PackageSetsOptions;
  readonly #source: PackageSource;
  readonly #builds = new SharedInstalls<SetResult>();
  readonly #attempts = new SharedInstalls<BuildResult>();
  #swept: Promise<void> | undefined;
  /** Installers by the Python that they install for. */
  readonly #installers = new Map<string, Installer>();

  constructor(options: PackageSetsOptions) {
    this.#options = options;
    this.#source = PackageSource.parse(options.source ?? {});
  }

  /** The tag of the Python that the sets are for. */
  async tag(): Promise<string> {
    return (await this.#interpreter()).tag;
  }

  /** The folder of a set, as kernels see it. */
  async kernelPath(set: string): Promise<string> {
    const { tag } = await this.#interpreter();
    return join(this.#options.inside ?? PACKAGES_INSIDE, tag, set);
  }

  /** The sets for this Python. */
  async folder(): Promise<string> {
    const { tag } = await this.#interpreter();
    const path = join(this.#options.folder, tag);
    try {
      if ((await mkdir(path, { recursive: true })) === undefined) return path;
      // Regardless of the umask, as a sandbox runs as another user.
      await chmod(this.#options.folder, 0o755);
      await chmod(path, 0o755);
      return path;
    } catch (cause) {
      throw folderError('There is no folder for packages', cause);
    }
  }

  /** The set of these requirements, if it is built. Installs nothing. */
  async find(requirements: readonly string[]): Promise<string | undefined> {
    const set = await this.#key(requirements);
    return (await this.manifest(set)) ? set : undefined;
  }

  /** The set of all requirements, or the set with the most of them if one is unavailable for this Python. */
  async findLargestSubset(requirements: readonly string[]): Promise<string | undefined> {
    const whole = await this.find(requirements);
    if (whole !== undefined) return whole;
    const wanted = new Set(normalizedRequirements(requirements));
    let most: { readonly set: string; readonly count: number } | undefined;
    for (const set of await readdir(await this.folder())) {
      const held = (await this.manifest(set))?.requirements ?? [];
      if (held.length <= (most?.count ?? 0) || !held.every((one) => wanted.has(one))) continue;
      // Only sets from the same sources, for the same libc.
      if ((await this.#key(held)) === set) most = { set, count: held.length };
    }
    return most?.set;
  }

  async manifest(set: string): Promise<SetManifest | undefined> {
    return await readSetManifest(join(await this.folder(), set));
  }

  /** The name of the set's folder. Concurrent calls for the same set share one build. */
  async build(requirements: readonly string[], waiter: InstallWaiter = {}): Promise<SetResult> {
    const set = await this.find(requirements);
    if (set !== undefined) return { kind: 'built', set };
    return await this.#builds.run(await this.#key(requirements), waiter, async (audience) => {
      const built = await this.#build(requirements, audience);
      if (built.kind === 'failed') return built;
      await using ready = built;
      return { kind: 'built', set: await this.publish(requirements, ready) };
    });
  }

  /** Installs without publishing, so that the caller can try several lists and publish the last that worked. */
  async attempt(requirements: readonly string[], waiter: InstallWaiter = {}): Promise<BuildResult> {
    return await this.#attempts.run(randomUUID(), waiter, (audience) => this.#build(requirements, audience));
  }

  /** Moves a set to its final folder. If another process has already built it, that set stays. */
  async publish(requirements: readonly string[], ready: StagedSet): Promise<string> {
    const set = await this.#key(requirements);
    const path = join(await this.folder(), set);
    try {
      await rename(ready.path, path);
    } catch (cause) {
      if (await readSetManifest(path)) return set;
      throw folderError('A package set could not be moved to its folder', cause);
    }
    await chmod(path, 0o555);
    return set;
  }

  /** Stops running builds. Finished sets stay, and new builds can start. */
  async close(): Promise<void> {
    await Promise.all([this.#builds.stop(), this.#attempts.stop()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #build(requirements: readonly string[], audience: PackageProgress): Promise<BuildResult> {
    const building = join(this.#options.folder, '.building');
    this.#swept ??= sweepInstallWorkspaces(building);
    await this.#swept;
    await this.folder();
    const interpreter = await this.#interpreter();
    const { timeoutMs = TEN_MINUTES } = this.#options;
    const wanted = JSON.stringify(interpreter);
    const plan: BuildPlan = {
      requirements: normalizedRequirements(requirements),
      tag: interpreter.tag,
      source: this.#source,
      timeoutMs,
      folder: building,
      pure: interpreter.executable === undefined && isPure(interpreter),
      installer: async ({ identity, cwd, env }, signal) => {
        const installer =
          this.#installers.get(wanted) ?? (await this.#findInstaller(interpreter, { identity, cwd, env, signal }));
        this.#installers.set(wanted, installer);
        return installer;
      },
    };
    const built = await buildSet(plan, audience);
    // The program may have been removed: the next call searches again.
    if (built.kind === 'failed') this.#installers.delete(wanted);
    return built;
  }

  async #findInstaller(interpreter: Interpreter, attempt: ProbeContext): Promise<Installer> {
    const { searchPath = installerSearchPath() } = this.#options;
    const { executable } = interpreter;
    if (executable !== undefined) {
      return programInstaller(await findInstaller({ ...interpreter, executable }, searchPath, attempt));
    }
    const installer = await findForeignInstaller(interpreter, searchPath, attempt);
    return installer ? programInstaller(installer, interpreter) : builtInInstaller(interpreter);
  }

  async #interpreter(): Promise<Interpreter> {
    const { python } = this.#options;
    return checkInterpreter(typeof python === 'string' ? await probePython(python) : await python());
  }

  async #key(requirements: readonly string[]): Promise<string> {
    const { tag, platforms } = await this.#interpreter();
    const own = [1, tag, normalizedRequirements(requirements), sourceKey(this.#source)];
    // Two images may have the same Python and a different libc.
    const facts = JSON.stringify(platforms.length === 0 ? own : [...own, platforms]);
    return createHash('sha256').update(facts).digest('hex').slice(0, 32);
  }
}

/** Checks everything that reaches an installer. */
function normalizedRequirements(requirements: readonly string[]): string[] {
  return [...new Set(requirements.map((requirement) => parseRequirement(requirement).text))].toSorted();
}

interface BuildPlan {
  readonly requirements: readonly string[];
  readonly tag: string;
  readonly source: PackageSource;
  readonly timeoutMs: number;
  /** Where sets are built. */
  readonly folder: string;
  /** Whether the Python runs only pure Python packages. */
  readonly pure: boolean;
  installer(workspace: InstallWorkspace, signal: AbortSignal): Promise<Installer>;
}

export interface StagedSet extends AsyncDisposable {
  readonly kind: 'ready';
  /** The folder. Disposing removes it, unless it was renamed. */
  readonly path: string;
}

type BuildResult = StagedSet | ({ readonly kind: 'failed' } & InstallFailure);

async function buildSet(plan: BuildPlan, { signal, progress }: PackageProgress): Promise<BuildResult> {
  if (signal.aborted) throw installAborted();
  await using stack = new AsyncDisposableStack();
  const { requirements, source } = plan;
  const workspace = stack.use(await openInstallWorkspace(plan.folder, requirementsText(requirements, source)));
  const installer = await plan.installer(workspace, signal);
  progress(`Installing ${requirements.join(' ')} with ${installer.name}`);
  const filled = await installer.install(
    { requirements, source, timeoutMs: plan.timeoutMs, workspace },
    { signal, progress },
  );
  if (signal.aborted) throw installAborted();
  if (filled.kind === 'failed') return filled;
  const native = plan.pure ? await nativeIn(filled.folder) : undefined;
  if (native !== undefined) return { kind: 'failed', reason: native, scope: 'some' };
  const distributions = await distributionsIn(filled.folder);
  const missing = missingFrom(distributions, requirements);
  if (missing.length > 0) {
    const reason = `${installer.name} reported success, but did not install ${missing.join(', ')}`;
    return { kind: 'failed', reason, scope: 'some' };
  }
  const { tag } = plan;
  const facts = {
    format: 1,
    tag,
    requirements,
    distributions,
    installer: installer.name,
    builtAt: Date.now(),
  } as const;
  try {
    await freeze(filled.folder, workspace.copy, { ...facts, requirements: [...requirements] });
  } catch (error) {
    const why = messageOf(error);
    return { kind: 'failed', reason: `the installed packages cannot be stored: ${why}`, scope: 'some' };
  }
  if (signal.aborted) throw installAborted();
  const kept = stack.move();
  return { kind: 'ready', path: workspace.copy, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function freeze(folder: string, copy: string, manifest: SetManifest): Promise<void> {
  await copyReadOnly(folder, copy);
  // An ordinary user can move a folder only while it is writable.
  await chmod(copy, 0o755);
  const path = join(copy, MANIFEST);
  await writeFile(path, `${JSON.stringify(manifest, null, 2)}\n`, { flag: 'wx' });
  await chmod(path, 0o444);
}

const MANIFEST = 'cella-set.json';

const SetManifest = z.object({
  format: z.literal(1),
  tag: z.string(),
  requirements: z.array(z.string()),
  /** All packages in the set by name: the requested ones and their dependencies. */
  distributions: z.array(z.object({ name: z.string(), version: z.string() })),
  installer: z.string(),
  /** Milliseconds since 1970. */
  builtAt: z.number(),
});
type SetManifest = z.infer<typeof SetManifest>;

/** The manifest, or undefined if there is no complete set in this format. */
async function readSetManifest(set: string): Promise<SetManifest | undefined> {
  const text = await readFile(join(set, MANIFEST), 'utf8').catch(() => '');
  return SetManifest.safeParse(tryParseJson(text)).data;
}

async function distributionsIn(folder: string): Promise<SetManifest['distributions']> {
  const found: SetManifest['distributions'] = [];
  for await (const { name, version } of distInfosIn(folder)) found.push({ name: packageName(name), version });
  return await sortedInSlices(found, (one, other) => (one.name < other.name ? -1 : 1));
}

/** The requirements whose package is missing, even if the installer reported success. */
function missingFrom(distributions: SetManifest['distributions'], requirements: readonly string[]): string[] {
  const names = new Set(distributions.map(({ name }) => name));
  return requirements.filter((requirement) => !names.has(parseRequirement(requirement).name));
}

/** The most bytes of the list of a package's files. */
const LARGEST_RECORD = 16 * 1024 * 1024;

/** Why the packages cannot be used, or undefined. */
async function nativeIn(folder: string): Promise<string | undefined> {
  for await (const { parentPath, name } of filesBelow(folder)) {
    if (!NATIVE.test(name)) continue;
    const path = relative(folder, join(parentPath, name));
    return `${await ownerOf(folder, path)} has native code (${path}), ${pureOnly}`;
  }
  return undefined;
}

/** The package whose list of files has this path. */
async function ownerOf(folder: string, path: string): Promise<string> {
  for await (const { entry, name, version } of distInfosIn(folder)) {
    const record = await readSmall(join(folder, entry, 'RECORD'), LARGEST_RECORD);
    if (`\n${record}`.includes(`\n${path},`)) return `${packageName(name)} ${version}`;
  }
  return 'a package';
}

/** The folders with facts about the packages. */
async function* distInfosIn(folder: string): AsyncGenerator<{ entry: string; name: string; version: string }> {
  for await (const { name: entry } of entriesOf(folder)) {
    const [, name, version] = /^([^-]+)-([^-]+)\.dist-info$/.exec(entry) ?? [];
    if (name !== undefined && version !== undefined) yield { entry, name, version };
  }
}

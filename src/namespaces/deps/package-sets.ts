/** Package sets: read-only folders of installed packages, one per list of requirements, shared by all kernels. */

import { createHash, randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { probePython } from '../../interpreter/find-python.ts';
import type { Interpreter } from '../../protocol/environment-spec.ts';
import { parseRequirement } from '../../protocol/requirement.ts';
import { PACKAGES_INSIDE } from '../../protocol/sandbox-policy.ts';
import {
  type BuildPlan,
  type BuildResult,
  buildSet,
  readSetManifest,
  type SetManifest,
  type StagedSet,
} from './build-set.ts';
import { folderError, sweepInstallWorkspaces } from './install-workspace.ts';
import { findForeignInstaller, findInstaller, installerSearchPath, type ProbeContext } from './installers.ts';
import { PackageSource, type PackageSourceOptions, sourceKey } from './package-source.ts';
import { checkInterpreter, isPure } from './resolver/python-target.ts';
import { builtInInstaller, type Installer, type InstallFailure, programInstaller } from './run-installer.ts';
import { type InstallWaiter, type PackageProgress, SharedInstalls } from './shared-installs.ts';

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

export type SetResult =
  | { readonly kind: 'built'; readonly set: string }
  | ({ readonly kind: 'failed' } & InstallFailure);

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
      throw folderError('There is no place to keep packages in', cause);
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
      throw folderError('A package set could not be put in its place', cause);
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

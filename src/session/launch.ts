/** From checked options to what an executor needs: folders, identity, environment, limits. */

import { dirname, join, resolve } from 'node:path';
import { removeFolder } from '../environments/files/remove-tree.ts';
import type { FilesRoot } from '../environments/files/session-files.ts';
import type { Executor, KernelHost, SpareSpec } from '../environments/kernel-host.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { PACKAGES_INSIDE } from '../protocol/sandbox-policy.ts';
import { type AgentMounts, agentMounts, checkAgentMounts } from '../sandbox/mount-points.ts';
import { type FileRights, fileRights } from '../sandbox/sandbox-user.ts';
import {
  checkFolderId,
  type EnvironmentSpec,
  type FolderId,
  limitsToSpec,
  type Mount,
  policyOf,
  readableFolder,
  resolveFolder,
  writableFolder,
} from '../sandbox/spec.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import type { SessionRecord } from '../storage/session-record.ts';
import { checkReadable } from './agent-readable.ts';
import {
  claimHome,
  discardHome,
  enterHome,
  exists,
  type Home,
  homeOf,
  INSIDE,
  isUnused,
  makeHome,
  sweepHomes,
} from './homes.ts';
import type { CheckedOptions } from './options.ts';
import { type FolderFacts, findPackageFolder, hasEntries } from './package-folder.ts';
import { type Recipe, recipeFor } from './recipes.ts';

/** Everything about the sandbox of one session that is known before there is one. */
export class Launch {
  readonly recipe: Recipe;
  /** What the caller wants the code to find in its environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The folder, as kernels see it, of the package set that they begin with. */
  packages: string | undefined;
  /** Where all package sets lie, on the host, and as kernels see it. */
  readonly packageFolder: { readonly path: string; readonly inside: string };
  readonly #packageFacts: FolderFacts;
  /** Whether the code is kept from the host's folders. */
  readonly isolated: boolean;
  /** Whether the code runs as a user of its own. */
  readonly #ownUser: boolean;
  #own: string;
  #borrowed = false;
  /** Whose folder it is. */
  agentKey: string;
  readonly #elsewhere: string | undefined;
  readonly #elsewhereId: FolderId | undefined;
  readonly #elsewhereStored: boolean;
  readonly #shared: Pick<EnvironmentSpec, 'network' | 'readable' | 'writable' | 'limits'>;
  #shape: string | undefined;

  private constructor(options: CheckedOptions, recipe: Recipe, dataDir: string) {
    const policy = policyOf(options.sandbox);
    this.recipe = recipe;
    // Without a sandbox the code finds everything by the host's own names.
    this.isolated = recipe.kind !== 'subprocess' || options.sandbox !== 'off';
    const root = recipe.kind !== 'in-process' && this.isolated && process.getuid?.() === 0;
    this.#ownUser = root;
    this.agentKey = options.agentKey;
    this.#own = join(dataDir, 'agents', folderName(options.agentKey));
    const folder = (option: string) => (path: string) => resolveFolder(path, option, dataDir, options.folderLinks);
    this.#elsewhere = options.cwd === undefined ? undefined : folder('cwd')(resolve(options.cwd));
    const named = (made: Mount): Mount => ({ ...made, id: checkFolderId(made.path, options.folderIds?.[made.path]) });
    const readable = policy.readable.map(folder('sandbox.readable')).map((path) => named(readableFolder(path, root)));
    const writable = policy.writable.map(folder('sandbox.writable')).map((path) => named(writableFolder(path, root)));
    if (this.#elsewhere !== undefined) {
      const elsewhere = named(writableFolder(this.#elsewhere, root));
      writable.unshift(elsewhere);
      this.#elsewhereId = elsewhere.id;
    }
    const packageFolder = join(dataDir, 'packages');
    this.packageFolder = { path: packageFolder, inside: this.isolated ? PACKAGES_INSIDE : packageFolder };
    this.#packageFacts = findPackageFolder(packageFolder);
    readable.push({ path: packageFolder, at: PACKAGES_INSIDE });
    this.#elsewhereStored = options.storage !== undefined;
    this.#shared = { network: policy.network, readable, writable, limits: limitsToSpec(options.limits) };
    // Without a sandbox there is no other name for it.
    this.env = this.isolated ? options.env : { HOME: this.home, ...options.env };
  }

  static async prepare(options: CheckedOptions, dataDir: string): Promise<Launch> {
    return new Launch(options, await recipeFor(options, dataDir), dataDir);
  }

  /** Works in the folder of another agent, which it was forked from. */
  share(agentKey: string, dataDir: string): void {
    this.#borrowed = true;
    this.agentKey = agentKey;
    this.#own = join(dataDir, 'agents', folderName(agentKey));
  }

  /** In the same folder, for a fork whose kernels may begin with other packages than its parent's. */
  twin(options: CheckedOptions, dataDir: string): Launch {
    const twin = new Launch(options, this.recipe, dataDir);
    twin.share(this.agentKey, dataDir);
    twin.packages = this.packages;
    return twin;
  }

  /** The folder that the caller has named, if any. */
  get elsewhere(): string | undefined {
    return this.#elsewhere;
  }

  /** Whether any package set was ever made here. */
  hasPackages(): boolean {
    return hasEntries(this.packageFolder.path, this.#packageFacts);
  }

  /** For each session that works in its folder; gives what to call when it has ended. */
  enter(): () => void {
    return enterHome(this.#own);
  }

  /** After an agent was destroyed: its folder goes with the last session that works in it. */
  async remove(agentKey: string, records: RecordStore | undefined): Promise<void> {
    const worksHere = ({ agentKey: key, workspaceOf = key }: SessionRecord) => workspaceOf === this.agentKey;
    const others = records && (async () => (await records.list()).some(worksHere));
    if (await isUnused(this.#own, agentKey === this.agentKey, others)) await removeFolder(this.#own);
  }

  /** The folder, on the host, that the code works in. */
  get cwd(): string {
    return this.#elsewhere ?? join(this.#own, 'workspace');
  }

  /** How files of that folder are reached. */
  get files(): FilesRoot {
    const inside = this.#elsewhere ?? join(this.isolated ? INSIDE : this.#own, 'workspace');
    return { path: this.cwd, inside, id: this.#elsewhereId, rights: this.#rightsIn(this.cwd) };
  }

  /** How files of its home are reached. */
  get homeFiles(): FilesRoot {
    return {
      path: this.home,
      inside: join(this.isolated ? INSIDE : this.#own, 'home'),
      rights: this.#rightsIn(this.home),
    };
  }

  #rightsIn(path: string): FileRights | undefined {
    return this.#ownUser ? fileRights(path, this.home, this.recipe.kind === 'container') : undefined;
  }

  /** Its home, on the host. */
  get home(): string {
    return join(this.#own, 'home');
  }

  /** A sandbox for a coding agent, beside the one that kernels live in; no kernel ever does in this one. */
  async openForAgent(
    executor: Executor,
    folders: AgentMounts,
  ): Promise<{ enclosure: KernelHost; spec: EnvironmentSpec }> {
    const own = this.#spec(homeOf(this.#own, this.#ownUser));
    checkAgentMounts([...own.readable, ...own.writable]);
    const readable = [...own.readable, ...agentMounts(folders, this.#ownUser)];
    const spec: EnvironmentSpec = { ...own, readable, limits: { ...own.limits, memoryCounts: 'used' } };
    if (this.recipe.kind === 'container') checkReadable(folders, spec);
    return { enclosure: await executor.open(spec), spec };
  }

  /** A sandbox for this session: one that is ready, where this is the key's first and there is one, else a new one. */
  async open(
    executor: Executor,
  ): Promise<{ enclosure: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }> {
    const missing = !exists(this.#own);
    // What it has saved may lie elsewhere: in another agent's folder that it shares, or in a storage of its own.
    const fresh = missing && !this.#borrowed && !this.#elsewhereStored;
    if (missing) {
      const spare = executor.spares.take(this.shape);
      if (spare) {
        // It wakes up while the folder gets its name.
        const first = spare.host.startKernel({ env: this.env, packages: this.packages });
        if (claimHome(spare.spec.folder.path, this.#own)) {
          spare.host.moveWorkspace?.(this.#own);
          return { enclosure: spare.host, first, fresh };
        }
        await spare.host.close();
        discardHome(spare.spec.folder.path);
      }
    }
    return { enclosure: await executor.open(this.#spec(homeOf(this.#own, this.#ownUser))), fresh };
  }

  /** Sandboxes for other keys with the same options. */
  spares(count: number): SpareSpec {
    const agents = dirname(this.#own);
    return {
      specKey: this.shape,
      count,
      make: () => {
        sweepHomes(agents);
        return this.#spec(makeHome(agents, this.#ownUser));
      },
      discard: (spec) => discardHome(spec.folder.path),
    };
  }

  /** Sessions that differ in nothing but their key have the same. */
  get shape(): string {
    this.#shape ??= JSON.stringify([dirname(this.#own), this.#elsewhere, this.#shared]);
    return this.#shape;
  }

  #spec(home: Home): EnvironmentSpec {
    const { own, uid, gid, owner } = home;
    const inside = this.isolated ? INSIDE : own;
    const folder = { path: own, at: inside, ...(owner ? { owner } : {}) };
    return {
      ...this.#shared,
      uid,
      gid,
      folder,
      writable: [folder, ...this.#shared.writable],
      home: join(inside, 'home'),
      cwd: this.#elsewhere ?? join(inside, 'workspace'),
    };
  }
}

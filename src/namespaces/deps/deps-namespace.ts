/** The packages of kernels. A requirement is stored only after it was installed. */

import { z } from 'zod';
import { Semaphore } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DepsStatus } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import { checkPackageName, parseRequirement, type Requirement } from '../../protocol/requirement.ts';
import type { DepsStore } from '../../storage/contract.ts';
import { type HostMethods, hostMethod, type NamespaceCallContext } from '../host-methods.ts';
import type { PackageSets, StagedSet } from './package-sets.ts';
import { type InstallWaiter, installAborted } from './shared-installs.ts';

interface DepsOptions {
  readonly store: DepsStore;
  readonly sets: PackageSets;
  /** False locks the configuration: add and remove are refused. */
  readonly allowRuntime: boolean;
}

export interface InstalledDeps {
  /** The requested packages that are installed. */
  readonly installed: readonly string[];
  readonly failed: readonly FailedRequirement[];
  readonly removed?: readonly string[];
  /** The set that kernels use from now on, or null. */
  readonly set: string | null;
  readonly note?: string;
}

/** `unsupported`: configured requirements that were left out. */
type InstallAttempt = BestEffortResult & { readonly unsupported: readonly string[]; readonly note?: string };

/** The parts of a call's context that deps need. */
export type DepsContext = Pick<NamespaceCallContext, 'signal' | 'progress'>;

/** How often a set is built again because others have changed the configuration meanwhile. */
const MOST_ROUNDS = 20;

export class Deps {
  readonly #store: DepsStore;
  readonly #sets: PackageSets;
  readonly #allowRuntime: boolean;
  /** Changes run one at a time, as each builds on the one before. */
  readonly #changes = new Semaphore(1);

  constructor({ store, sets, allowRuntime }: DepsOptions) {
    this.#store = store;
    this.#sets = sets;
    this.#allowRuntime = allowRuntime;
  }

  methods(): HostMethods {
    return depsMethods(this);
  }

  async list(): Promise<string[]> {
    return await this.#store.list();
  }

  /** Installs nothing. */
  async status(): Promise<DepsStatus> {
    const requirements = await this.#store.list();
    const installed = requirements.length === 0 || (await this.#sets.find(requirements)) !== undefined;
    return { requirements, python: await this.#sets.tag(), installed };
  }

  /** The folder of a set, as kernels see it. */
  async kernelPath(set: string): Promise<string> {
    return await this.#sets.kernelPath(set);
  }

  /** The set of the current configuration, or its largest installed subset. Installs nothing. */
  async current(): Promise<string | undefined> {
    const configured = await this.#store.list();
    return configured.length === 0 ? undefined : await this.#sets.findLargestSubset(configured);
  }

  /** Adds requirements. Those that cannot be installed are in `failed`. */
  async add(requirements: string | readonly string[], context: DepsContext): Promise<InstalledDeps> {
    this.#refuseIfLocked('add');
    const asked = parseRequirements(typeof requirements === 'string' ? [requirements] : requirements);
    return await this.#change(context.signal, () => this.#add(asked, context));
  }

  async remove(name: string, context: DepsContext): Promise<InstalledDeps> {
    this.#refuseIfLocked('remove');
    const checked = checkPackageName(name);
    return await this.#change(context.signal, async () => {
      if (!(await this.#store.remove(checked))) {
        const note = `${checked} is not in the list of packages.`;
        return { installed: [], failed: [], removed: [], set: (await this.current()) ?? null, note };
      }
      const { set, failed } = await this.#installConfigured(context);
      const stays = `Modules that running code has imported from ${checked} stays until its kernel restarts.`;
      const late = failed.length === 0 ? '' : ' The other packages could not all be installed without it; try sync.';
      return { installed: [], failed, removed: [checked], set, note: `${stays}${late}` };
    });
  }

  /** Installs configured packages that are missing. */
  async sync(context: DepsContext): Promise<InstalledDeps> {
    return await this.#change(context.signal, () => this.#installConfigured(context));
  }

  async #add(asked: readonly Requirement[], context: DepsContext): Promise<InstalledDeps> {
    const before = (await this.#store.list()).map(parseRequirement);
    const { unsupported, ...tried } = await this.#tryBeside(before, asked, context);
    if (tried.installed.length === 0) return { ...tried, set: (await this.current()) ?? null };
    for (const text of tried.installed) await this.#store.add(text);
    const { set, reason } = await this.#followOthers(tried.set, unsupported, context);
    if (reason === undefined) return { ...tried, set };
    await this.#takeBack(tried.installed, before);
    const failed = tried.installed.map((requirement) => ({ requirement, reason }));
    return { installed: [], failed: [...tried.failed, ...failed], set: (await this.current()) ?? null };
  }

  /** Leaves out packages that were configured for another Python and do not exist for this one. */
  async #tryBeside(
    before: readonly Requirement[],
    asked: readonly Requirement[],
    context: DepsContext,
  ): Promise<InstallAttempt> {
    const tried = await installBestEffort(this.#sets, before, asked, context);
    const texts = before.map(({ text }) => text);
    if (tried.installed.length > 0 || before.length === 0 || (await this.#sets.find(texts))) {
      return { ...tried, unsupported: [] };
    }
    const set = await this.#sets.findLargestSubset(texts);
    const here = set === undefined ? [] : ((await this.#sets.manifest(set))?.requirements ?? []);
    const unsupported = texts.filter((text) => !here.includes(text));
    const again = await installBestEffort(this.#sets, here.map(parseRequirement), asked, context);
    if (again.installed.length === 0) return { ...again, unsupported };
    const note = `Configured, but not installed for this Python: ${unsupported.join(', ')}. \`sync\` says why.`;
    return { ...again, unsupported, note };
  }

  /** Builds the set of the current configuration, which another process may have changed meanwhile. */
  async #followOthers(
    set: string | null,
    unsupported: readonly string[],
    context: DepsContext,
  ): Promise<{ set: string | null; reason?: string }> {
    let own = set;
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const configured = (await this.#store.list()).filter((text) => !unsupported.includes(text));
      if (configured.length === 0) return { set: null };
      const built = await this.#sets.build(configured, context);
      if (built.kind === 'failed') return { set: null, reason: built.reason };
      if (built.set === own) return { set: own };
      own = built.set;
    }
    return { set: own };
  }

  async #takeBack(texts: readonly string[], before: readonly Requirement[]): Promise<void> {
    for (const { name } of texts.map(parseRequirement)) {
      const earlier = before.find((one) => one.name === name);
      if (earlier) await this.#store.add(earlier.text);
      else await this.#store.remove(name);
    }
  }

  async #installConfigured(context: DepsContext): Promise<InstalledDeps> {
    const configured = (await this.#store.list()).map(parseRequirement);
    return await installBestEffort(this.#sets, [], configured, context);
  }

  async #change<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return await this.#changes.run(async () => {
      if (signal.aborted) throw installAborted();
      return await work();
    }, signal);
  }

  #refuseIfLocked(what: string): void {
    if (this.#allowRuntime) return;
    throw new CellaError('DEPS_LOCKED', `deps.${what} is not allowed here: the packages are locked.`);
  }
}

function parseRequirements(texts: readonly string[]): Requirement[] {
  const byName = new Map<string, Requirement>();
  for (const requirement of texts.map(parseRequirement)) {
    const other = byName.get(requirement.name);
    if (other && other.text !== requirement.text) {
      const message = `${requirement.name} is requested twice: ${other.text} and ${requirement.text}. Write it as one.`;
      throw new CellaError('DEPS_INVALID', message, { details: { requirement: requirement.text } });
    }
    byName.set(requirement.name, requirement);
  }
  return [...byName.values()];
}

const Nothing = z.strictObject({});
/** `parseRequirement` checks the texts. */
const Add = z.strictObject({ requirements: z.array(z.string()).min(1).max(100) });
const Remove = z.strictObject({ name: z.string() });

function depsMethods(deps: Deps): HostMethods {
  return {
    'deps.list': hostMethod(Nothing, () => deps.list()),
    'deps.status': hostMethod(Nothing, async () => {
      const { requirements, python, installed } = await deps.status();
      return { requirements: [...requirements], python, installed };
    }),
    'deps.add': hostMethod(Add, async ({ requirements }, context) =>
      reply(deps, await deps.add(requirements, context)),
    ),
    'deps.remove': hostMethod(Remove, async ({ name }, context) => reply(deps, await deps.remove(name, context))),
    'deps.sync': hostMethod(Nothing, async (_params, context) => reply(deps, await deps.sync(context))),
  };
}

async function reply(deps: Deps, { installed, failed, removed, set, note }: InstalledDeps): Promise<PyValue> {
  return {
    installed: [...installed],
    failed: failed.map(({ requirement, reason }) => ({ requirement, reason })),
    ...(removed === undefined ? {} : { removed: [...removed] }),
    set,
    path: set === null ? null : await deps.kernelPath(set),
    ...(note === undefined ? {} : { note }),
  };
}

interface FailedRequirement {
  readonly requirement: string;
  readonly reason: string;
}

interface BestEffortResult {
  readonly installed: readonly string[];
  readonly failed: readonly FailedRequirement[];
  /** The set with the previous packages and the new ones, or null if nothing was installed. */
  readonly set: string | null;
}

/** Adds `wanted` to `before`, and replaces requirements of the same packages. */
async function installBestEffort(
  sets: PackageSets,
  before: readonly Requirement[],
  wanted: readonly Requirement[],
  waiter: InstallWaiter,
): Promise<BestEffortResult> {
  if (wanted.length === 0) return { installed: [], failed: [], set: null };
  const together = await sets.build(textsOf(mergeRequirements(before, wanted)), waiter);
  if (together.kind === 'built') return { installed: textsOf(wanted), failed: [], set: together.set };
  if (wanted.length > 1 && together.scope === 'some') return await installOneByOne(sets, before, wanted, waiter);
  const failed = wanted.map(({ text }) => ({ requirement: text, reason: together.reason }));
  return { installed: [], failed, set: null };
}

async function installOneByOne(
  sets: PackageSets,
  before: readonly Requirement[],
  wanted: readonly Requirement[],
  waiter: InstallWaiter,
): Promise<BestEffortResult> {
  const installed: Requirement[] = [];
  const failed: FailedRequirement[] = [];
  let best: StagedSet | undefined;
  try {
    for (const requirement of wanted) {
      const tried = await sets.attempt(textsOf(mergeRequirements(before, [...installed, requirement])), waiter);
      if (tried.kind === 'failed') {
        failed.push({ requirement: requirement.text, reason: tried.reason });
        continue;
      }
      await best?.[Symbol.asyncDispose]();
      best = tried;
      installed.push(requirement);
    }
    const set = best ? await sets.publish(textsOf(mergeRequirements(before, installed)), best) : null;
    return { installed: textsOf(installed), failed, set };
  } finally {
    await best?.[Symbol.asyncDispose]();
  }
}

function mergeRequirements(before: readonly Requirement[], wanted: readonly Requirement[]): Requirement[] {
  return [...before.filter(({ name }) => !wanted.some((one) => one.name === name)), ...wanted];
}

function textsOf(requirements: readonly Requirement[]): string[] {
  return requirements.map(({ text }) => text);
}

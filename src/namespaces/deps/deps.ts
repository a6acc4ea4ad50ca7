/** The packages that kernels have: what is asked for is kept in storage once it is installed, and only then. */

import { CellaError } from '../../protocol/errors.ts';
import { checkPackageName, parseRequirement, type Requirement } from '../../protocol/requirement.ts';
import type { DepsStore } from '../../storage/contract.ts';
import type { HostMethods, NamespaceCallContext } from '../host-methods.ts';
import { depsMethods } from './methods.ts';
import type { PackageSets } from './sets.ts';
import { Turns } from './turns.ts';
import { type FailedRequirement, installWhatWorks, type WhatWorks } from './what-works.ts';

export interface DepsOptions {
  readonly store: DepsStore;
  readonly sets: PackageSets;
  /** False locks the configuration: add and remove are refused, whoever calls. */
  readonly allowRuntime: boolean;
}

export interface DepsResult {
  /** What was asked for and is there. */
  readonly installed: readonly string[];
  readonly failed: readonly FailedRequirement[];
  readonly removed?: readonly string[];
  /** The set that kernels should use from here on; null where there is none. */
  readonly set: string | null;
  readonly note?: string;
}

export interface DepsStatus {
  readonly requirements: readonly string[];
  /** Of the Python of these kernels: `cp311-x86_64`. */
  readonly python: string;
  /** Whether all of them are there for it. */
  readonly installed: boolean;
}

/** `unsupported`: what is configured and was left out. */
type Tried = WhatWorks & { readonly unsupported: readonly string[]; readonly note?: string };

/** What is needed of a call's context. */
export type DepsContext = Pick<NamespaceCallContext, 'signal' | 'progress'>;

/** A change by others while one is made brings another round; this many at once is no accident. */
const MOST_ROUNDS = 20;

export class Deps {
  readonly #store: DepsStore;
  readonly #sets: PackageSets;
  readonly #allowRuntime: boolean;
  readonly #turns = new Turns();

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

  /** Nothing is installed by asking. */
  async status(): Promise<DepsStatus> {
    const requirements = await this.#store.list();
    const installed = requirements.length === 0 || (await this.#sets.find(requirements)) !== undefined;
    return { requirements, python: await this.#sets.tag(), installed };
  }

  /** A set's folder, as kernels see it. */
  async inside(set: string): Promise<string> {
    return await this.#sets.inside(set);
  }

  /** The set of the current configuration, or of what could be had of it here, where it is built; nothing is installed. */
  async current(): Promise<string | undefined> {
    const configured = await this.#store.list();
    return configured.length === 0 ? undefined : await this.#sets.findMost(configured);
  }

  /** Those that cannot be installed are in `failed`; the others are added. */
  async add(requirements: string | readonly string[], context: DepsContext): Promise<DepsResult> {
    this.#refuseIfLocked('add');
    const asked = parseAll(typeof requirements === 'string' ? [requirements] : requirements);
    return await this.#turns.take(context.signal, () => this.#add(asked, context));
  }

  async remove(name: string, context: DepsContext): Promise<DepsResult> {
    this.#refuseIfLocked('remove');
    const checked = checkPackageName(name);
    return await this.#turns.take(context.signal, async () => {
      if (!(await this.#store.remove(checked))) {
        const note = `${checked} is not among the packages that were asked for.`;
        return { installed: [], failed: [], removed: [], set: (await this.current()) ?? null, note };
      }
      const { set, failed } = await this.#installConfigured(context);
      const stays = `What running code has imported of ${checked} stays until its kernel restarts.`;
      const late = failed.length === 0 ? '' : ' The other packages could not all be installed without it; try sync.';
      return { installed: [], failed, removed: [checked], set, note: `${stays}${late}` };
    });
  }

  /** Installs what is configured where that is not there yet. */
  async sync(context: DepsContext): Promise<DepsResult> {
    return await this.#turns.take(context.signal, () => this.#installConfigured(context));
  }

  async #add(asked: readonly Requirement[], context: DepsContext): Promise<DepsResult> {
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

  /** What was configured for another Python and cannot be had for this one is no reason to refuse the rest. */
  async #tryBeside(
    before: readonly Requirement[],
    asked: readonly Requirement[],
    context: DepsContext,
  ): Promise<Tried> {
    const tried = await installWhatWorks(this.#sets, before, asked, context);
    const texts = before.map(({ text }) => text);
    if (tried.installed.length > 0 || before.length === 0 || (await this.#sets.find(texts))) {
      return { ...tried, unsupported: [] };
    }
    const set = await this.#sets.findMost(texts);
    const here = set === undefined ? [] : ((await this.#sets.manifest(set))?.requirements ?? []);
    const unsupported = texts.filter((text) => !here.includes(text));
    const again = await installWhatWorks(this.#sets, here.map(parseRequirement), asked, context);
    if (again.installed.length === 0) return { ...again, unsupported };
    const note = `Configured, and not installed for this Python: ${unsupported.join(', ')}. \`sync\` tells why.`;
    return { ...again, unsupported, note };
  }

  /** Another process may have changed the configuration meanwhile: the set of all of it that fits is what counts. */
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

  async #installConfigured(context: DepsContext): Promise<DepsResult> {
    const configured = (await this.#store.list()).map(parseRequirement);
    return await installWhatWorks(this.#sets, [], configured, context);
  }

  #refuseIfLocked(what: string): void {
    if (this.#allowRuntime) return;
    throw new CellaError('DEPS_LOCKED', `deps.${what} is not allowed here: the packages are locked.`);
  }
}

function parseAll(texts: readonly string[]): Requirement[] {
  const byName = new Map<string, Requirement>();
  for (const requirement of texts.map(parseRequirement)) {
    const other = byName.get(requirement.name);
    if (other && other.text !== requirement.text) {
      const message = `${requirement.name} is asked for twice: ${other.text} and ${requirement.text}. Write it as one.`;
      throw new CellaError('DEPS_INVALID', message, { details: { requirement: requirement.text } });
    }
    byName.set(requirement.name, requirement);
  }
  return [...byName.values()];
}

/**
 * Chooses the version of each package: the newest that meets all conditions. If packages conflict, it tries an older version
 * of the package that it chose last, and so on, up to a limit.
 */

import { giveWay, inSlices, sortedInSlices } from '../../../lib/event-loop.ts';
import type { Interpreter } from '../../../protocol/environment-spec.ts';
import type { Requirement } from '../../../protocol/requirement.ts';
import type { PackageFile, PackageIndex } from './package-index.ts';
import {
  compareVersions,
  isPrerelease,
  parseCondition,
  parseVersion,
  satisfies,
  splitConditions,
  type Version,
  wantsPrereleases,
} from './pep440.ts';
import { type Metadata, requirementsOf } from './pep508.ts';
import { fullVersion, isPure, knownVersion, markerEnvironment, pureOnly, wheelTags } from './python-target.ts';
import { ResolutionError, type ResolverLimits } from './resolver-limits.ts';
import type { WheelCache } from './wheel.ts';

/** A requirement, and the package that requires it. */
interface PendingRequirement extends Requirement {
  readonly by: string | undefined;
}

interface Pin {
  readonly file: PackageFile;
  readonly metadata: Metadata;
  readonly extras: readonly string[];
}

type Pins = ReadonlyMap<string, Pin>;

interface ResolverContext {
  readonly files: PackageIndex;
  readonly store: WheelCache;
  readonly limits: ResolverLimits;
  readonly signal: AbortSignal;
}

/** Returns the wheels to unpack. Throws a ResolutionError. */
export async function resolve(
  wanted: readonly Requirement[],
  interpreter: Interpreter,
  sources: ResolverContext,
): Promise<PackageFile[]> {
  const resolver = new Resolver(interpreter, sources);
  const pins = await resolver.solve(
    new Map(),
    wanted.map((requirement) => ({ ...requirement, by: undefined })),
    0,
  );
  if (pins) return [...pins.values()].map(({ file }) => file);
  throw new ResolutionError(resolver.reason ?? 'no set of versions meets all requirements');
}

class Resolver {
  readonly #interpreter: Interpreter;
  readonly #sources: ResolverContext;
  readonly #chooser: CandidateSelector;
  #tried = 0;
  /** The error of the first dead end, in which all versions are the newest possible. */
  reason: string | undefined;

  constructor(interpreter: Interpreter, sources: ResolverContext) {
    this.#interpreter = interpreter;
    this.#sources = sources;
    this.#chooser = new CandidateSelector(interpreter);
  }

  /** The requirements before `at` are met. Returns undefined if the others cannot be met. */
  async solve(pins: Pins, pending: readonly PendingRequirement[], at: number): Promise<Pins | undefined> {
    const { limits, signal } = this.#sources;
    signal.throwIfAborted();
    await giveWay();
    const own = new Map(pins);
    const all = [...pending];
    for (let next = at; next < all.length; next += 1) {
      if (all.length > limits.maxRequirements)
        throw new ResolutionError(`it has more than ${limits.maxRequirements} requirements`);
      const wanted = all[next];
      const pin = wanted && own.get(wanted.name);
      if (wanted && !pin) return await this.#pin(own, all, next, wanted);
      if (!wanted || !pin) continue;
      if (!satisfies(pin.file.version, wanted.versions)) return this.#recordConflict(this.#conflict(all, wanted.name));
      const extras = wanted.extras.filter((extra) => !pin.extras.includes(extra));
      if (extras.length === 0) continue;
      this.#checkExtras(wanted.name, pin.extras.length + extras.length);
      const wider = { ...pin, extras: [...pin.extras, ...extras] };
      own.set(wanted.name, wider);
      all.push(...(await this.#needs(wider)));
    }
    return own;
  }

  async #pin(
    pins: Pins,
    pending: readonly PendingRequirement[],
    at: number,
    wanted: PendingRequirement,
  ): Promise<Pins | undefined> {
    const { limits, files: places } = this.#sources;
    if (pins.size >= limits.packages) throw new ResolutionError(`it needs more than ${limits.packages} packages`);
    const files = await places.of(wanted.name);
    const all = pending.filter(({ name }) => name === wanted.name);
    const conditions = all.flatMap(({ versions }) => versions);
    if (conditions.length > limits.conditions)
      throw new ResolutionError(`there are more than ${limits.conditions} conditions on the version of ${wanted.name}`);
    this.#checkExtras(wanted.name, wanted.extras.length);
    const candidates = await this.#chooser.candidates(files, conditions);
    if (candidates.length === 0) return this.#recordConflict(await this.#nothingFits(all, files));
    for await (const file of inSlices(candidates)) {
      const pin = await this.#look(file, wanted.extras);
      if (!pin) continue;
      const more = await this.#needs(pin);
      const against = more.find((one) => !this.#agrees(pins, one));
      if (against) {
        this.#recordConflict(this.#conflict([...pending, ...more], against.name));
        continue;
      }
      const solved = await this.solve(new Map(pins).set(wanted.name, pin), [...pending, ...more], at + 1);
      if (solved) return solved;
    }
    return undefined;
  }

  /** Each extra is searched for in all requirements of the package. */
  #checkExtras(name: string, count: number): void {
    const { extras } = this.#sources.limits;
    if (count > extras) throw new ResolutionError(`more than ${extras} extras of ${name} are requested`);
  }

  /** Undefined if the version is not for this Python. Not every index says so in advance. */
  async #look(file: PackageFile, extras: readonly string[]): Promise<Pin | undefined> {
    const { limits, store } = this.#sources;
    this.#tried += 1;
    if (this.#tried > limits.versions) {
      const why = this.reason === undefined ? '' : `: ${this.reason}`;
      throw new ResolutionError(
        `no solution was found among ${limits.versions} versions; use narrower requirements${why}`,
      );
    }
    const metadata = await store.metadata(file);
    if (this.#chooser.runsOn(metadata.requiresPython)) return { file, metadata, extras };
    const own = knownVersion(this.#interpreter);
    return this.#recordConflict(`${labelOf(file)} needs Python ${metadata.requiresPython ?? ''}; this is ${own}`);
  }

  async #needs({ file, metadata, extras }: Pin): Promise<PendingRequirement[]> {
    const environment = markerEnvironment(this.#interpreter);
    const by = labelOf(file);
    const requirements = await requirementsOf(metadata, extras, environment, by);
    return requirements.map((requirement) => ({ ...requirement, by }));
  }

  #agrees(pins: Pins, { name, versions }: PendingRequirement): boolean {
    const pin = pins.get(name);
    return !pin || satisfies(pin.file.version, versions);
  }

  async #nothingFits(all: readonly PendingRequirement[], files: readonly PackageFile[]): Promise<string> {
    const [first] = all;
    const one = { name: first?.name ?? '', files, where: this.#sources.files.where };
    let alone: PendingRequirement | undefined;
    for (const asked of all) {
      if ((await this.#chooser.candidates(files, asked.versions)).length > 0) continue;
      alone = asked;
      break;
    }
    if (!alone && all.length > 1) return this.#conflict(all, one.name);
    const asked = alone ?? first;
    const reason = await explainUnmet({ ...one, conditions: asked?.versions ?? [] }, this.#interpreter, this.#chooser);
    return asked?.by === undefined ? reason : `${asked.by} needs ${asked.text}: ${reason}`;
  }

  #conflict(pending: readonly PendingRequirement[], name: string): string {
    const asked = pending.filter((wanted) => wanted.name === name);
    return `no version of ${name} meets all requirements: ${asked.map(({ by, text }) => `${by ?? 'you'} ${by ? 'needs' : 'ask for'} ${text}`).join(', ')}`;
  }

  #recordConflict(reason: string): undefined {
    this.reason ??= reason;
    return undefined;
  }
}

function labelOf({ name, versionText }: PackageFile): string {
  return `${name} ${versionText}`;
}

/** The longest `Requires-Python` of a package. */
const LONGEST_CONDITION = 1000;

/** The usable versions of a package, newest first, each with its best wheel. */
export class CandidateSelector {
  readonly #ranks: ReadonlyMap<string, number>;
  readonly #python: Version | undefined;

  constructor(interpreter: Interpreter) {
    this.#ranks = new Map(wheelTags(interpreter).map((tag, rank) => [tag, rank]));
    this.#python = parseVersion(fullVersion(interpreter));
  }

  /** One wheel for each version. */
  async candidates(files: readonly PackageFile[], conditions: readonly string[]): Promise<PackageFile[]> {
    const fitting: PackageFile[] = [];
    for await (const file of inSlices(await matching(files, conditions))) {
      if (this.fits(file) && this.runsOn(file.requiresPython)) fitting.push(file);
    }
    const sorted = await sortedInSlices(
      fitting,
      (one, other) => compareVersions(other.version, one.version) || this.#better(one, other),
    );
    const wanted = preferReleases(sorted, conditions);
    return wanted.filter((file, at) => {
      const before = wanted[at - 1];
      return !before || compareVersions(before.version, file.version) !== 0;
    });
  }

  fits({ wheel }: PackageFile): boolean {
    return wheel?.tags.some((tag) => this.#ranks.has(tag)) ?? false;
  }

  /** A condition that cannot be parsed excludes nothing. */
  runsOn(requiresPython: string | undefined): boolean {
    if (requiresPython === undefined || !this.#python) return true;
    if (requiresPython.length > LONGEST_CONDITION) return false;
    return satisfies(this.#python, splitConditions(requiresPython));
  }

  #better(one: PackageFile, other: PackageFile): number {
    return this.#rank(one) - this.#rank(other) || (other.wheel?.build ?? -1) - (one.wheel?.build ?? -1);
  }

  #rank({ wheel }: PackageFile): number {
    return Math.min(...(wheel?.tags ?? []).map((tag) => this.#ranks.get(tag) ?? Number.POSITIVE_INFINITY));
  }
}

/** Yanked files are used only if the version is named exactly. */
async function matching(files: readonly PackageFile[], conditions: readonly string[]): Promise<PackageFile[]> {
  const named = conditions.some((condition) => /^==(?!.*\*)/.test(condition));
  // Read once: an index may have very many files.
  const tests = conditions.map(parseCondition);
  const found: PackageFile[] = [];
  for await (const file of inSlices(files)) {
    if (!named && file.from === 'index' && file.file.yanked) continue;
    if (tests.every((test) => test?.(file.version) ?? false)) found.push(file);
  }
  return found;
}

/** Prereleases are used only if asked for, or if there is nothing else. */
function preferReleases(files: PackageFile[], conditions: readonly string[]): PackageFile[] {
  if (wantsPrereleases(conditions)) return files;
  const releases = files.filter(({ version }) => !isPrerelease(version));
  return releases.length > 0 ? releases : files;
}

interface UnmetRequirement {
  readonly name: string;
  readonly conditions: readonly string[];
  readonly files: readonly PackageFile[];
  /** The sources that were searched. */
  readonly where: string;
}

export async function explainUnmet(
  question: UnmetRequirement,
  interpreter: Interpreter,
  chooser: CandidateSelector,
): Promise<string> {
  const { name, conditions, files, where } = question;
  if (files.length === 0) return `there is no package ${name} (${where})`;
  const found = await newestFirst(await matching(files, conditions));
  const [newest] = found;
  if (!newest) {
    const there = [...new Set((await newestFirst(files)).map(({ versionText }) => versionText))];
    const some = there.slice(0, 8).join(', ') + (there.length > 8 ? ', …' : '');
    const taken = (await matching(files, [])).length === 0 ? ' (they were withdrawn)' : '';
    return `no version of ${name} is ${conditions.join(',') || 'available'}: there are ${some}${taken}`;
  }
  const what = `${name} ${newest.versionText}`;
  const same = found.filter(({ version }) => compareVersions(version, newest.version) === 0);
  const wheels = same.filter(({ wheel }) => wheel !== undefined);
  if (wheels.length === 0)
    return `${what} has no wheel, only a source package, and Cella does not build packages, because that runs their code`;
  const fitting = wheels.find((file) => chooser.fits(file));
  if (fitting) return `${what} needs Python ${fitting.requiresPython ?? ''}; this is ${knownVersion(interpreter)}`;
  const tags = [...new Set(wheels.flatMap(({ wheel }) => wheel?.tags ?? []))];
  const some = tags.slice(0, 3).join(', ') + (tags.length > 3 ? ', …' : '');
  if (isPure(interpreter)) return `${what} has native code (${some}), ${pureOnly}`;
  const own = `Python ${knownVersion(interpreter)} on ${interpreter.platforms[0] ?? ''}`;
  return `${what} has no wheel for ${own}; it has ${some}`;
}

async function newestFirst(files: readonly PackageFile[]): Promise<PackageFile[]> {
  return await sortedInSlices(files, (one, other) => compareVersions(other.version, one.version));
}

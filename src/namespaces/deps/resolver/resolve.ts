/**
 * Which version of which package: the newest of each that fits all that is asked of it. Where two disagree, an older
 * version of the one that was chosen last is tried, and so on, up to a limit.
 */

import type { Interpreter } from '../../../protocol/interpreter.ts';
import type { Requirement } from '../../../protocol/requirement.ts';
import { Chooser } from './candidates.ts';
import { satisfies } from './conditions.ts';
import { explain } from './explain.ts';
import { Failed } from './failed.ts';
import type { Limits } from './limits.ts';
import { type Metadata, requirementsOf } from './metadata.ts';
import type { PackageFile, PackageFiles } from './package-files.ts';
import type { WheelStore } from './store.ts';
import { knownVersion, markerEnvironment } from './target.ts';

/** A requirement, and who has it. */
interface Wish extends Requirement {
  readonly by: string | undefined;
}

interface Choice {
  readonly file: PackageFile;
  readonly metadata: Metadata;
  readonly extras: readonly string[];
}

type Choices = ReadonlyMap<string, Choice>;

export interface Sources {
  readonly files: PackageFiles;
  readonly store: WheelStore;
  readonly limits: Limits;
  readonly signal: AbortSignal;
}

/** The wheels to unpack. Throws Failed. */
export async function resolve(
  wanted: readonly Requirement[],
  interpreter: Interpreter,
  sources: Sources,
): Promise<PackageFile[]> {
  const resolver = new Resolver(interpreter, sources);
  const choices = await resolver.solve(
    new Map(),
    wanted.map((requirement) => ({ ...requirement, by: undefined })),
    0,
  );
  if (choices) return [...choices.values()].map(({ file }) => file);
  throw new Failed(resolver.reason ?? 'there is no set of versions that fits all that is asked for');
}

class Resolver {
  readonly #interpreter: Interpreter;
  readonly #sources: Sources;
  readonly #chooser: Chooser;
  #tried = 0;
  /** Of the first dead end, where all is as new as can be. */
  reason: string | undefined;

  constructor(interpreter: Interpreter, sources: Sources) {
    this.#interpreter = interpreter;
    this.#sources = sources;
    this.#chooser = new Chooser(interpreter);
  }

  /** The wishes before `at` are met. Undefined where the others cannot be. */
  async solve(choices: Choices, wishes: readonly Wish[], at: number): Promise<Choices | undefined> {
    const { limits, signal } = this.#sources;
    signal.throwIfAborted();
    const own = new Map(choices);
    const all = [...wishes];
    for (let next = at; next < all.length; next += 1) {
      if (all.length > limits.wishes) throw new Failed(`it needs more than ${limits.wishes} things`);
      const wish = all[next];
      const choice = wish && own.get(wish.name);
      if (wish && !choice) return await this.#choose(own, all, next, wish);
      if (!wish || !choice) continue;
      if (!satisfies(choice.file.version, wish.versions)) return this.#recordConflict(this.#conflict(all, wish.name));
      const extras = wish.extras.filter((extra) => !choice.extras.includes(extra));
      if (extras.length === 0) continue;
      this.#checkExtras(wish.name, choice.extras.length + extras.length);
      const wider = { ...choice, extras: [...choice.extras, ...extras] };
      own.set(wish.name, wider);
      all.push(...this.#needs(wider));
    }
    return own;
  }

  async #choose(choices: Choices, wishes: readonly Wish[], at: number, wish: Wish): Promise<Choices | undefined> {
    const { limits, files: places } = this.#sources;
    if (choices.size >= limits.packages) throw new Failed(`it needs more than ${limits.packages} packages`);
    const files = await places.of(wish.name);
    const all = wishes.filter(({ name }) => name === wish.name);
    const conditions = all.flatMap(({ versions }) => versions);
    if (conditions.length > limits.conditions)
      throw new Failed(`there are more than ${limits.conditions} conditions on the version of ${wish.name}`);
    this.#checkExtras(wish.name, wish.extras.length);
    const candidates = this.#chooser.candidates(files, conditions);
    if (candidates.length === 0) return this.#recordConflict(this.#nothingFits(all, files));
    for (const file of candidates) {
      const choice = await this.#look(file, wish.extras);
      if (!choice) continue;
      const more = this.#needs(choice);
      const against = more.find((one) => !this.#agrees(choices, one));
      if (against) {
        this.#recordConflict(this.#conflict([...wishes, ...more], against.name));
        continue;
      }
      const solved = await this.solve(new Map(choices).set(wish.name, choice), [...wishes, ...more], at + 1);
      if (solved) return solved;
    }
    return undefined;
  }

  /** Each of them is looked for in every requirement of the package. */
  #checkExtras(name: string, count: number): void {
    const { extras } = this.#sources.limits;
    if (count > extras) throw new Failed(`more than ${extras} extras of ${name} are asked for`);
  }

  /** Undefined where the version is not for this Python, which not every index says beforehand. */
  async #look(file: PackageFile, extras: readonly string[]): Promise<Choice | undefined> {
    const { limits, store } = this.#sources;
    this.#tried += 1;
    if (this.#tried > limits.versions) {
      const why = this.reason === undefined ? '' : `: ${this.reason}`;
      throw new Failed(`no answer was found among ${limits.versions} versions; ask for narrower ones${why}`);
    }
    const metadata = await store.metadata(file);
    if (this.#chooser.runsOn(metadata.requiresPython)) return { file, metadata, extras };
    const own = knownVersion(this.#interpreter);
    return this.#recordConflict(`${labelOf(file)} needs Python ${metadata.requiresPython ?? ''}, and this is ${own}`);
  }

  #needs({ file, metadata, extras }: Choice): Wish[] {
    const environment = markerEnvironment(this.#interpreter);
    const by = labelOf(file);
    return requirementsOf(metadata, extras, environment, by).map((requirement) => ({ ...requirement, by }));
  }

  #agrees(choices: Choices, { name, versions }: Wish): boolean {
    const choice = choices.get(name);
    return !choice || satisfies(choice.file.version, versions);
  }

  #nothingFits(all: readonly Wish[], files: readonly PackageFile[]): string {
    const [first] = all;
    const one = { name: first?.name ?? '', files, where: this.#sources.files.where };
    const alone = all.find(({ versions }) => this.#chooser.candidates(files, versions).length === 0);
    if (!alone && all.length > 1) return this.#conflict(all, one.name);
    const asked = alone ?? first;
    const reason = explain({ ...one, conditions: asked?.versions ?? [] }, this.#interpreter, this.#chooser);
    return asked?.by === undefined ? reason : `${asked.by} needs ${asked.text}: ${reason}`;
  }

  #conflict(wishes: readonly Wish[], name: string): string {
    const asked = wishes.filter((wish) => wish.name === name);
    return `no version of ${name} fits all: ${asked.map(({ by, text }) => `${by ?? 'you'} ${by ? 'needs' : 'ask for'} ${text}`).join(', ')}`;
  }

  #recordConflict(reason: string): undefined {
    this.reason ??= reason;
    return undefined;
  }
}

function labelOf({ name, versionText }: PackageFile): string {
  return `${name} ${versionText}`;
}

/** Which versions of a package could be taken, newest first, each with the wheel that fits best. */

import type { Interpreter } from '../../../protocol/interpreter.ts';
import { parseCondition, satisfies, splitConditions, wantsPrereleases } from './conditions.ts';
import type { PackageFile } from './package-files.ts';
import { fullVersion, wheelTags } from './target.ts';
import { compareVersions, isPrerelease, parseVersion, type Version } from './version.ts';

/** Of what a package says of its Pythons. */
const LONGEST_CONDITION = 1000;

export class Chooser {
  readonly #ranks: ReadonlyMap<string, number>;
  readonly #python: Version | undefined;

  constructor(interpreter: Interpreter) {
    this.#ranks = new Map(wheelTags(interpreter).map((tag, rank) => [tag, rank]));
    this.#python = parseVersion(fullVersion(interpreter));
  }

  /** One wheel for each version. */
  candidates(files: readonly PackageFile[], conditions: readonly string[]): PackageFile[] {
    const fitting = matching(files, conditions).filter((file) => this.fits(file) && this.runsOn(file.requiresPython));
    const sorted = fitting.toSorted(
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

  /** What cannot be understood keeps nobody away. */
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

/** What was taken back is only for whoever names it exactly. */
export function matching(files: readonly PackageFile[], conditions: readonly string[]): PackageFile[] {
  const named = conditions.some((condition) => /^==(?!.*\*)/.test(condition));
  // Read once: an index may have very many files.
  const tests = conditions.map(parseCondition);
  return files.filter(
    (file) =>
      tests.every((test) => test?.(file.version) ?? false) && (named || file.from === 'folder' || !file.file.yanked),
  );
}

/** Prereleases are for whoever asks for them, or where there is nothing else. */
function preferReleases(files: PackageFile[], conditions: readonly string[]): PackageFile[] {
  if (wantsPrereleases(conditions)) return files;
  const releases = files.filter(({ version }) => !isPrerelease(version));
  return releases.length > 0 ? releases : files;
}

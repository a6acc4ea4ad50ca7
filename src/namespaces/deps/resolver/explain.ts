/** Why no wheel of a package can be taken: the real reason, as the index shows it. */

import type { Interpreter } from '../../../protocol/interpreter.ts';
import { type Chooser, matching } from './candidates.ts';
import type { PackageFile } from './package-files.ts';
import { isPure, knownVersion, pureOnly } from './target.ts';
import { compareVersions } from './version.ts';

export interface Question {
  readonly name: string;
  readonly conditions: readonly string[];
  readonly files: readonly PackageFile[];
  /** Where was looked. */
  readonly where: string;
}

export function explain(question: Question, interpreter: Interpreter, chooser: Chooser): string {
  const { name, conditions, files, where } = question;
  if (files.length === 0) return `there is no package ${name} (${where})`;
  const found = newestFirst(matching(files, conditions));
  const [newest] = found;
  if (!newest) {
    const there = [...new Set(newestFirst(files).map(({ versionText }) => versionText))];
    const some = there.slice(0, 8).join(', ') + (there.length > 8 ? ', …' : '');
    const taken = matching(files, []).length === 0 ? ' (they were taken back)' : '';
    return `no version of ${name} is ${conditions.join(',') || 'there to be taken'}: there are ${some}${taken}`;
  }
  const what = `${name} ${newest.versionText}`;
  const same = found.filter(({ version }) => compareVersions(version, newest.version) === 0);
  const wheels = same.filter(({ wheel }) => wheel !== undefined);
  if (wheels.length === 0) return `${what} has no wheel, only a source: building it runs its code and is not done`;
  const fitting = wheels.find((file) => chooser.fits(file));
  if (fitting) return `${what} needs Python ${fitting.requiresPython ?? ''}, and this is ${knownVersion(interpreter)}`;
  const tags = [...new Set(wheels.flatMap(({ wheel }) => wheel?.tags ?? []))];
  const some = tags.slice(0, 3).join(', ') + (tags.length > 3 ? ', …' : '');
  if (isPure(interpreter)) return `${what} has native code (${some}), ${pureOnly}`;
  const own = `Python ${knownVersion(interpreter)} on ${interpreter.platforms[0] ?? ''}`;
  return `${what} has no wheel for ${own}; it has ${some}`;
}

function newestFirst(files: readonly PackageFile[]): PackageFile[] {
  return files.toSorted((one, other) => compareVersions(other.version, one.version));
}

/** What may be asked of the package index: a package, perhaps with extras and versions. Nothing else is ever passed on. */

import { CellaError } from './errors.ts';

export interface Requirement {
  /** In the one spelling that the index compares: lower case, with hyphens. */
  readonly name: string;
  readonly extras: readonly string[];
  /** `>=2.0`, `!=2.1`. */
  readonly versions: readonly string[];
  /** All of it, in one spelling. */
  readonly text: string;
}

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const VERSION = /^(===|~=|==|!=|<=|>=|<|>)\s*([A-Za-z0-9][A-Za-z0-9._+!-]*(?:\.\*)?)$/;
const WHOLE = /^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*(.*?)\s*$/;
const LONGEST = 500;

/** Throws DEPS_INVALID for URLs, options, paths, markers and whatever else is no plain requirement. */
export function parseRequirement(text: unknown): Requirement {
  if (typeof text !== 'string') throw invalid(String(text), 'it must be text');
  if (text.length > LONGEST) throw invalid(`${text.slice(0, 80)}…`, `it is longer than ${LONGEST} characters`);
  const [, written = '', extrasText, versionsText = ''] = WHOLE.exec(text) ?? [];
  if (!NAME.test(written)) throw invalid(text, 'it does not begin with the name of a package');
  const extras = extrasText === undefined ? [] : extrasText.split(',').map((extra) => extra.trim());
  for (const extra of extras) if (!NAME.test(extra)) throw invalid(text, `${JSON.stringify(extra)} is no extra`);
  const bare = versionsText.startsWith('(') && versionsText.endsWith(')') ? versionsText.slice(1, -1) : versionsText;
  const versions = bare.trim() === '' ? [] : bare.split(',').map((version) => checkVersion(text, version.trim()));
  const name = packageName(written);
  const own = extras.length === 0 ? '' : `[${extras.map(packageName).toSorted().join(',')}]`;
  return { name, extras, versions, text: `${name}${own}${versions.join(',')}` };
}

function checkVersion(text: string, version: string): string {
  const [, operator, number] = VERSION.exec(version) ?? [];
  if (operator === undefined) throw invalid(text, `${JSON.stringify(version)} is no condition on its version`);
  return `${operator}${number}`;
}

/** As the index compares them: `Foo_Bar` and `foo.bar` are one. */
export function packageName(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase();
}

/** For whoever asks by name alone, to remove it: throws DEPS_INVALID for anything else. */
export function checkPackageName(name: unknown): string {
  return parseRequirement(name).name;
}

function invalid(text: string, why: string): CellaError {
  return new CellaError('DEPS_INVALID', `${JSON.stringify(text)} cannot be asked of the package index: ${why}.`, {
    details: { requirement: text },
  });
}

/** Package requirements: a package with optional extras and versions. Nothing else is ever passed to an installer. */

import { CellaError } from './errors.ts';

export interface Requirement {
  /** Normalized as in the index: lower case, with hyphens. */
  readonly name: string;
  readonly extras: readonly string[];
  /** `>=2.0`, `!=2.1`. */
  readonly versions: readonly string[];
  /** The whole requirement, normalized. */
  readonly text: string;
}

const NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const WHOLE = /^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*(.*?)\s*$/;
/** A version of PEP 440: epoch, release, pre, post, dev and local part. */
const NUMBER =
  /^v?(?:\d+!)?\d+(?:\.\d+)*(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|preview)[-_.]?\d*)?(?:-\d+|[-_.]?(?:post|rev|r)[-_.]?\d*)?(?:[-_.]?dev[-_.]?\d*)?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?$/i;
const CONDITION = /^(===|~=|==|!=|<=|>=|<|>)\s*(\S+)$/;
/** pip treats a requirement with such an ending as a file. */
const ARCHIVE = /\.(?:whl|zip|tar|t[bglx]z|gz|bz2|xz|lz|lzma)$/i;
const LONGEST = 500;

/** Throws DEPS_INVALID for URLs, options, paths, markers and anything else that is not a plain requirement. */
export function parseRequirement(text: unknown): Requirement {
  if (typeof text !== 'string') throw invalid(`a value of type ${typeof text}`, 'it must be text');
  if (text.length > LONGEST) throw invalid(`${text.slice(0, 80)}…`, `it is longer than ${LONGEST} characters`);
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(text)) throw invalid(text, 'it contains a control character');
  if (/:\/\/|@/.test(text)) throw invalid(text, 'URLs are not taken');
  const [, written = '', extrasText, versionsText = ''] = WHOLE.exec(text) ?? [];
  if (!NAME.test(written)) throw invalid(text, 'it does not begin with the name of a package');
  const extras = extrasText === undefined ? [] : extrasText.split(',').map((extra) => checkExtra(text, extra.trim()));
  const bare = versionsText.startsWith('(') && versionsText.endsWith(')') ? versionsText.slice(1, -1) : versionsText;
  const versions = bare.trim() === '' ? [] : bare.split(',').map((version) => checkVersion(text, version.trim()));
  const name = packageName(written);
  const sorted = [...new Set(extras)].toSorted();
  const own = sorted.length === 0 ? '' : `[${sorted.join(',')}]`;
  return { name, extras: sorted, versions, text: `${name}${own}${versions.join(',')}` };
}

function checkExtra(text: string, extra: string): string {
  if (!NAME.test(extra)) throw invalid(text, `${JSON.stringify(extra)} is not the name of an extra`);
  return packageName(extra);
}

function checkVersion(text: string, version: string): string {
  const [, operator = '', number = ''] = CONDITION.exec(version) ?? [];
  const isPattern = number.endsWith('.*') && (operator === '==' || operator === '!=');
  if (!NUMBER.test(isPattern ? number.slice(0, -2) : number)) {
    throw invalid(text, `${JSON.stringify(version)} is not a condition on its version`);
  }
  if (ARCHIVE.test(number)) throw invalid(text, `${JSON.stringify(version)} looks like a file name`);
  return `${operator}${number}`;
}

/** Normalizes a name as the index does: `Foo_Bar` and `foo.bar` are the same. */
export function packageName(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase();
}

/** For requests by name only, such as removals. Throws DEPS_INVALID for anything else. */
export function checkPackageName(name: unknown): string {
  const requirement = parseRequirement(name);
  if (requirement.text === requirement.name) return requirement.name;
  throw invalid(String(name), `only the name is needed: ${requirement.name}`);
}

function invalid(text: string, why: string): CellaError {
  return new CellaError('DEPS_INVALID', `${JSON.stringify(text)} is not a valid requirement: ${why}.`, {
    details: { requirement: text },
  });
}

/** Conditions on a version, as requirements write them: `>=2.0`, `!=2.1.*`, `~=1.4`. */

import { compareReleases, compareVersions, isPrerelease, parseVersion, type Version } from './version.ts';

type Test = (version: Version) => boolean;

const CONDITION = /^(===|~=|==|!=|<=|>=|<|>)\s*(\S+)$/;

/** Undefined for what is no condition. */
export function parseCondition(text: string): Test | undefined {
  const [, operator = '', written = ''] = CONDITION.exec(text.trim()) ?? [];
  if (written.endsWith('.*')) return parsePattern(operator, written.slice(0, -2));
  const wanted = parseVersion(written);
  return wanted && testFor(operator, wanted);
}

/** `==1.2.*` is any 1.2, however it goes on. */
function parsePattern(operator: string, written: string): Test | undefined {
  const prefix = parseVersion(written);
  if (!prefix || prefix.pre || prefix.post !== undefined || prefix.dev !== undefined || prefix.local) return undefined;
  if (operator === '==') return (version) => beginsWith(version, prefix);
  return operator === '!=' ? (version) => !beginsWith(version, prefix) : undefined;
}

function testFor(operator: string, wanted: Version): Test | undefined {
  switch (operator) {
    case '===':
      return (version) => compareVersions(version, wanted) === 0;
    case '==':
      return (version) => isSame(version, wanted);
    case '!=':
      return (version) => !isSame(version, wanted);
    case '<=':
      return (version) => compareVersions(publicPart(version), wanted) <= 0;
    case '>=':
      return (version) => compareVersions(publicPart(version), wanted) >= 0;
    case '<':
      return (version) => isBefore(version, wanted);
    case '>':
      return (version) => isAfter(version, wanted);
    case '~=': {
      const prefix = { ...wanted, release: wanted.release.slice(0, -1) };
      if (prefix.release.length === 0) return undefined;
      return (version) => compareVersions(publicPart(version), wanted) >= 0 && beginsWith(version, prefix);
    }
    default:
      return undefined;
  }
}

/** Whatever follows a + makes no difference, unless the condition has it too. */
function isSame(version: Version, wanted: Version): boolean {
  return compareVersions(wanted.local ? version : publicPart(version), wanted) === 0;
}

/** `<2.0` does not take the prereleases of 2.0. */
function isBefore(version: Version, wanted: Version): boolean {
  if (compareVersions(version, wanted) >= 0) return false;
  return !isPrerelease(version) || isPrerelease(wanted) || !isSameBase(version, wanted);
}

/** `>2.0` takes neither 2.0.post1 nor 2.0+local. */
function isAfter(version: Version, wanted: Version): boolean {
  if (compareVersions(version, wanted) <= 0) return false;
  if (!isSameBase(version, wanted)) return true;
  return !version.local && (version.post === undefined || wanted.post !== undefined);
}

function publicPart(version: Version): Version {
  return version.local ? { ...version, local: undefined } : version;
}

function isSameBase(one: Version, other: Version): boolean {
  return one.epoch === other.epoch && compareReleases(one.release, other.release) === 0;
}

function beginsWith({ epoch, release }: Version, prefix: Version): boolean {
  return epoch === prefix.epoch && prefix.release.every((number, at) => number === (release[at] ?? 0n));
}

/** Whether all hold. One that is no condition holds for nothing. */
export function satisfies(version: Version, conditions: readonly string[]): boolean {
  return conditions.every((condition) => parseCondition(condition)?.(version) ?? false);
}

/** Whether one names a prerelease, and so asks for them. */
export function wantsPrereleases(conditions: readonly string[]): boolean {
  return conditions.some((condition) => {
    const [, operator = '', written = ''] = CONDITION.exec(condition.trim()) ?? [];
    const version = operator === '!=' ? undefined : parseVersion(written);
    return version !== undefined && isPrerelease(version);
  });
}

/** `>=3.9,<4`, as `Requires-Python` has it. */
export function splitConditions(text: string): string[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

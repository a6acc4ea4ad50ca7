/** Versions and version conditions of Python packages (PEP 440). */

export interface Version {
  readonly epoch: bigint;
  readonly release: readonly bigint[];
  /** `a`, `b` or `rc`, and its number. */
  readonly pre: readonly [letter: string, number: bigint] | undefined;
  readonly post: bigint | undefined;
  readonly dev: bigint | undefined;
  readonly local: readonly (bigint | string)[] | undefined;
}

const PATTERN =
  /^v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?(?:-(\d+)|[-_.]?(?:post|rev|r)[-_.]?(\d*))?(?:[-_.]?dev[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?$/;
const LETTERS: Readonly<Record<string, string>> = { alpha: 'a', beta: 'b', c: 'rc', pre: 'rc', preview: 'rc' };
const LONGEST = 200;

/** The version, or undefined if the text is not one. */
export function parseVersion(text: string): Version | undefined {
  const written = text.trim().toLowerCase();
  const found = written.length > LONGEST ? null : PATTERN.exec(written);
  if (!found) return undefined;
  const [, epoch, release = '', letter, number, shortPost, post, dev, local] = found;
  return {
    epoch: BigInt(epoch ?? 0),
    release: release.split('.').map(BigInt),
    pre: letter === undefined ? undefined : [LETTERS[letter] ?? letter, BigInt(number || 0)],
    post: numberOf(shortPost ?? post),
    dev: numberOf(dev),
    local: local?.split(/[-_.]/).map((part) => (/^\d+$/.test(part) ? BigInt(part) : part)),
  };
}

/** A part without a number counts as 0. */
function numberOf(text: string | undefined): bigint | undefined {
  return text === undefined ? undefined : BigInt(text || 0);
}

export function isPrerelease({ pre, dev }: Version): boolean {
  return pre !== undefined || dev !== undefined;
}

/** Negative if the first is older. */
export function compareVersions(one: Version, other: Version): number {
  return (
    compare(one.epoch, other.epoch) ||
    compareReleases(one.release, other.release) ||
    compareParts(preKey(one), preKey(other)) ||
    compareParts(optional(one.post, -1), optional(other.post, -1)) ||
    compareParts(optional(one.dev, 1), optional(other.dev, 1)) ||
    compareLocals(one.local, other.local)
  );
}

/** Missing numbers count as zeros. */
export function compareReleases(one: readonly bigint[], other: readonly bigint[]): number {
  const length = Math.max(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const order = compare(one[at] ?? 0n, other[at] ?? 0n);
    if (order !== 0) return order;
  }
  return 0;
}

type VersionPart = bigint | number | string;

/** 1.0.dev1 comes before 1.0a1, and that before 1.0. */
function preKey({ pre, post, dev }: Version): readonly VersionPart[] {
  if (pre) return [0, ...pre];
  return [post === undefined && dev !== undefined ? -1 : 1];
}

function optional(value: bigint | undefined, missing: number): readonly VersionPart[] {
  return value === undefined ? [missing] : [0, value];
}

/** No local part is the smallest; words come before numbers. */
function compareLocals(one: Version['local'], other: Version['local']): number {
  if (!one || !other) return compare(Number(one !== undefined), Number(other !== undefined));
  const key = (parts: readonly (bigint | string)[]) =>
    parts.flatMap<VersionPart>((part) => (typeof part === 'string' ? [0, part] : [1, part]));
  return compareParts(key(one), key(other));
}

function compareParts(one: readonly VersionPart[], other: readonly VersionPart[]): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const order = compare(one[at] ?? 0, other[at] ?? 0);
    if (order !== 0) return order;
  }
  return compare(one.length, other.length);
}

function compare(one: VersionPart, other: VersionPart): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

type Test = (version: Version) => boolean;

const CONDITION = /^(===|~=|==|!=|<=|>=|<|>)\s*(\S+)$/;

/** The condition, or undefined if the text is not one. */
export function parseCondition(text: string): Test | undefined {
  const [, operator = '', written = ''] = CONDITION.exec(text.trim()) ?? [];
  if (written.endsWith('.*')) return parsePattern(operator, written.slice(0, -2));
  const wanted = parseVersion(written);
  return wanted && testFor(operator, wanted);
}

/** `==1.2.*` matches any version that begins with 1.2. */
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

/** The local part after a + counts only if the condition has one. */
function isSame(version: Version, wanted: Version): boolean {
  return compareVersions(wanted.local ? version : publicPart(version), wanted) === 0;
}

/** `<2.0` does not match prereleases of 2.0. */
function isBefore(version: Version, wanted: Version): boolean {
  if (compareVersions(version, wanted) >= 0) return false;
  return !isPrerelease(version) || isPrerelease(wanted) || !isSameBase(version, wanted);
}

/** `>2.0` matches neither 2.0.post1 nor 2.0+local. */
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

/** Whether all conditions hold. An invalid condition never holds. */
export function satisfies(version: Version, conditions: readonly string[]): boolean {
  return conditions.every((condition) => parseCondition(condition)?.(version) ?? false);
}

/** Whether a condition names a prerelease, and so allows prereleases. */
export function wantsPrereleases(conditions: readonly string[]): boolean {
  return conditions.some((condition) => {
    const [, operator = '', written = ''] = CONDITION.exec(condition.trim()) ?? [];
    const version = operator === '!=' ? undefined : parseVersion(written);
    return version !== undefined && isPrerelease(version);
  });
}

/** Conditions such as `>=3.9,<4` in `Requires-Python`. */
export function splitConditions(text: string): string[] {
  const parts = text.split(',').map((part) => part.trim());
  return parts.filter((part) => part !== '');
}

/** Versions as PEP 440 writes and orders them. */

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

/** Undefined for what is no version. */
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

/** A part that is there without a number counts as 0. */
function numberOf(text: string | undefined): bigint | undefined {
  return text === undefined ? undefined : BigInt(text || 0);
}

export function isPrerelease({ pre, dev }: Version): boolean {
  return pre !== undefined || dev !== undefined;
}

/** Negative where the first is older. */
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

/** Missing numbers are zeros. */
export function compareReleases(one: readonly bigint[], other: readonly bigint[]): number {
  const length = Math.max(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const order = compare(one[at] ?? 0n, other[at] ?? 0n);
    if (order !== 0) return order;
  }
  return 0;
}

type Part = bigint | number | string;

/** 1.0.dev1 comes before 1.0a1, and that before 1.0. */
function preKey({ pre, post, dev }: Version): readonly Part[] {
  if (pre) return [0, ...pre];
  return [post === undefined && dev !== undefined ? -1 : 1];
}

function optional(value: bigint | undefined, missing: number): readonly Part[] {
  return value === undefined ? [missing] : [0, value];
}

/** None is the smallest; words come before numbers. */
function compareLocals(one: Version['local'], other: Version['local']): number {
  if (!one || !other) return compare(Number(one !== undefined), Number(other !== undefined));
  const key = (parts: readonly (bigint | string)[]) =>
    parts.flatMap<Part>((part) => (typeof part === 'string' ? [0, part] : [1, part]));
  return compareParts(key(one), key(other));
}

function compareParts(one: readonly Part[], other: readonly Part[]): number {
  const length = Math.min(one.length, other.length);
  for (let at = 0; at < length; at += 1) {
    const order = compare(one[at] ?? 0, other[at] ?? 0);
    if (order !== 0) return order;
  }
  return compare(one.length, other.length);
}

function compare(one: Part, other: Part): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

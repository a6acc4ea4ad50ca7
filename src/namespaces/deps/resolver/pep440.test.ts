import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  compareVersions,
  isPrerelease,
  parseVersion,
  satisfies,
  splitConditions,
  type Version,
  wantsPrereleases,
} from './pep440.ts';

const version = (text: string): Version => {
  const parsed = parseVersion(text);
  if (!parsed) throw new Error(`${text} is no version`);
  return parsed;
};

const number = fc.nat({ max: 30 });
const optional = (text: fc.Arbitrary<string>) => fc.oneof(fc.constant(''), text);
const versions = fc
  .tuple(
    optional(number.map((epoch) => `${epoch}!`)),
    fc.array(number, { minLength: 1, maxLength: 4 }).map((release) => release.join('.')),
    optional(fc.tuple(fc.constantFrom('a', 'b', 'rc'), number).map(([letter, at]) => `${letter}${at}`)),
    optional(number.map((at) => `.post${at}`)),
    optional(number.map((at) => `.dev${at}`)),
    optional(fc.constantFrom('+abc', '+1', '+1.abc', '+abc.1')),
  )
  .map((parts) => parts.join(''));

describe('versions', () => {
  it('are ordered as PEP 440 orders them', () => {
    const sorted = [
      ...['1.dev0', '1.0.dev456', '1.0a1', '1.0a2.dev456', '1.0a12.dev456', '1.0a12', '1.0b1.dev456', '1.0b2'],
      ...['1.0b2.post345.dev456', '1.0b2.post345', '1.0rc1.dev456', '1.0rc1', '1.0', '1.0+abc.5', '1.0+abc.7', '1.0+5'],
      ...['1.0.post456.dev34', '1.0.post456', '1.0.15', '1.1.dev1', '1!0.1'],
    ];
    const mixed = sorted.toReversed();
    expect(mixed.toSorted((one, other) => compareVersions(version(one), version(other)))).toEqual(sorted);
  });

  it.each([
    ['1.0', '1'],
    ['1.0.0', 'v1'],
    ['1.0alpha1', '1.0-A.1'],
    ['1.0c1', '1.0-preview_1'],
    ['1.0-1', '1.0.post1'],
    ['1.0.rev', '1.0.post0'],
    ['1.0+UBUNTU-1', '1.0+ubuntu.1'],
  ])('%s and %s are equal', (one, other) => {
    expect(compareVersions(version(one), version(other))).toBe(0);
  });

  it.each(['', 'latest', '1..0', '1.0-', '1.0+', 'dev', '1.0.x', '1.0 1', '9'.repeat(300)])('%j is none', (text) => {
    expect(parseVersion(text)).toBeUndefined();
  });

  it('numbers of any length are compared exactly', () => {
    expect(compareVersions(version('20240312123456789'), version('20240312123456788'))).toBe(1);
  });

  it('know whether they are prereleases', () => {
    expect(
      ['1.0', '1.0.post1', '1.0a1', '1.0.dev1', '1.0.post1.dev1'].map((text) => isPrerelease(version(text))),
    ).toEqual([false, false, true, true, true]);
  });

  it('have a total order', () => {
    fc.assert(
      fc.property(versions, versions, versions, (a, b, c) => {
        const [one, two, three] = [version(a), version(b), version(c)].toSorted(compareVersions) as [
          Version,
          Version,
          Version,
        ];
        expect(compareVersions(one, two)).toBe(-compareVersions(two, one) || 0);
        expect(compareVersions(one, one)).toBe(0);
        expect(
          compareVersions(one, two) <= 0 && compareVersions(two, three) <= 0 && compareVersions(one, three) <= 0,
        ).toBe(true);
      }),
    );
  });
});

function fits(version: string, conditions: string): boolean {
  const parsed = parseVersion(version);
  return parsed !== undefined && satisfies(parsed, splitConditions(conditions));
}

describe('conditions', () => {
  it.each([
    ['2.0', '>=2'],
    ['2.1.3', '>=2.0,<3'],
    ['2.0+cpu', '==2.0'],
    ['2.0', '==2.0.0'],
    ['2.1', '==2.*'],
    ['2', '==2.0.*'],
    ['2.1a1', '==2.1.*'],
    ['1.4.9', '~=1.4.2'],
    ['1.9', '~=1.4'],
    ['1.4.5.post1', '~=1.4.5a4'],
    ['1.5', '!=1.4.*'],
    ['1.0rc1', '>=1.0rc1'],
    ['1.0rc1', '<1.0rc2'],
    ['1.0.post2', '>1.0.post1'],
    ['1.1', '>1.0'],
    ['1.0+local', '<=1.0'],
    ['2!1.0', '>1.0'],
    ['1.0', '===1.0'],
    ['1.0', ''],
  ])('%s meets %j', (version, conditions) => {
    expect(fits(version, conditions)).toBe(true);
  });

  it.each([
    ['1.9', '>=2'],
    ['3.0', '>=2.0,<3'],
    ['2.0', '==2.0+cpu'],
    ['2.1', '==2.0.*'],
    ['20.0', '==2.*'],
    ['1.5', '~=1.4.2'],
    ['1.4.1', '~=1.4.2'],
    ['1.4.3', '!=1.4.*'],
    ['1.0rc1', '<1.0'],
    ['1.0.post1', '>1.0'],
    ['1.0+local', '>1.0'],
    ['2!1.0', '==1.0'],
    ['1.0', '~=1'],
    ['1.0', '>=banana'],
    ['1.0', '=1.0'],
    ['1.0', '>=1.*'],
    ['1.0', '==1.0a1.*'],
  ])('%s does not meet %j', (version, conditions) => {
    expect(fits(version, conditions)).toBe(false);
  });

  it('say whether they allow prereleases', () => {
    expect(wantsPrereleases(['>=2.0b1'])).toBe(true);
    expect(wantsPrereleases(['>=2.0', '!=2.1rc1'])).toBe(false);
  });
});

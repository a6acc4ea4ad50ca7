import { describe, expect, it } from 'vitest';
import { satisfies, splitConditions, wantsPrereleases } from './conditions.ts';
import { parseVersion } from './version.ts';

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
  ])('%s fits %j', (version, conditions) => {
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
  ])('%s does not fit %j', (version, conditions) => {
    expect(fits(version, conditions)).toBe(false);
  });

  it('say whether prereleases are asked for', () => {
    expect(wantsPrereleases(['>=2.0b1'])).toBe(true);
    expect(wantsPrereleases(['>=2.0', '!=2.1rc1'])).toBe(false);
  });
});

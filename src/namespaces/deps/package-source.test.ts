/** Where packages come from: what an operator may say, and that a password in it goes nowhere. */

import { describe, expect, it } from 'vitest';
import { requirementsText } from './installers.ts';
import { PackageSource, sourceKey, withoutSecrets } from './package-source.ts';

describe('PackageSource', () => {
  it('is PyPI by default', () => {
    expect(PackageSource.parse({})).toEqual({ extraIndexes: [], wheelFolders: [], noIndex: false });
  });

  it.each([
    { index: 'file:///srv/index' },
    { index: 'not a url' },
    { index: '-r file' },
    { index: 'https://example.org/simple?token=1' },
    { extraIndexes: ['ftp://example.org/'] },
    { wheelFolders: ['relative'] },
    { wheelFolders: ['/a\n--pre'] },
    { noIndex: true, index: 'https://example.org/simple' },
    { trustedHosts: ['*'] },
  ])('refuses %j', (given) => {
    expect(PackageSource.safeParse(given).success).toBe(false);
  });

  it('does not repeat a URL that it refuses', () => {
    const { error } = PackageSource.safeParse({ index: 'https://joe:pass@example.org/?x' });
    expect(JSON.stringify(error?.issues)).not.toContain('pass');
  });

  it('writes a URL on one line, whatever it contains', () => {
    const source = PackageSource.parse({ index: `https://joe:p'w@example.org/a b/\n--pre/\${HOME}/` });
    const [line, rest] = requirementsText(['x'], source).split('\n');
    expect(line).toMatch(/^--index-url https:\/\/[^\s'{}]+$/);
    expect(rest).toBe('x');
  });
});

it('a user and password do not change the set', () => {
  const key = (index: string) => JSON.stringify(sourceKey(PackageSource.parse({ index })));
  expect(key('https://joe:pass@example.org/simple')).toBe(key('https://example.org/simple'));
  expect(key('https://example.org/simple')).not.toBe(key('https://example.org/other'));
  expect(key('https://joe:pass@example.org/simple')).not.toMatch(/joe|pass/);
});

it('passwords are removed from installer output, in any spelling', () => {
  const source = PackageSource.parse({
    index: 'https://joe:p%40ss@example.org/',
    extraIndexes: ['https://t0ken@two.org/'],
  });
  const said = 'see https://joe:p%40ss@example.org/x and p@ss, t0ken, https://ann:other@three.org/ here';
  const shown = withoutSecrets(said, source);
  expect(shown).not.toMatch(/p%40ss|p@ss|t0ken|other/);
  expect(shown).toContain('https://example.org/x');
});

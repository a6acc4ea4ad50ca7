/** What may be asked of the package index, and what is refused. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CellaError } from './errors.ts';
import { checkPackageName, packageName, parseRequirement } from './requirement.ts';

describe('parseRequirement', () => {
  it.each([
    ['pandas', 'pandas'],
    [' Pandas >= 2.0 ', 'pandas>=2.0'],
    ['Foo_Bar.baz', 'foo-bar-baz'],
    ['a==1.0', 'a==1.0'],
    ['a (>=1, <2)', 'a>=1,<2'],
    ['a >=1 , !=1.5.*', 'a>=1,!=1.5.*'],
    ['a~=1.4.2', 'a~=1.4.2'],
    ['a===1!2.0.post1', 'a===1!2.0.post1'],
    ['a==1.0rc1.dev2+cpu.1', 'a==1.0rc1.dev2+cpu.1'],
    ['a[X, y_z, x]<3', 'a[x,y-z]<3'],
    ['foo.whl', 'foo-whl'],
  ])('writes %j as %j', (given, text) => {
    expect(parseRequirement(given).text).toBe(text);
    expect(parseRequirement(text).text).toBe(text);
  });

  it('returns the parts', () => {
    const parts = { name: 'a-b', extras: ['x', 'y'], versions: ['>=1', '<2'], text: 'a-b[x,y]>=1,<2' };
    expect(parseRequirement('A.b[y,x] >=1,<2')).toEqual(parts);
  });

  it.each([
    ['x; rm -rf /', /condition on its version/],
    ['x && y', /condition/],
    ['x `id`', /condition/],
    ['$(id)', /begin with the name/],
    ['git+https://example.org/x.git', /URLs/],
    ['https://example.org/x.whl', /URLs/],
    ['x @ file:///etc/passwd', /URLs/],
    ['x@1.0', /URLs/],
    ['-r file', /begin with the name/],
    ['--index-url=http://x', /URLs/],
    ['-e .', /begin with the name/],
    ['x -r file', /condition/],
    ['x --hash=sha256:00', /condition/],
    ['x\n-r file', /control character/],
    ['x==1.0\n--pre', /control character/],
    ['x\u2028y', /control character/],
    ['x\0', /control character/],
    ['x==1\\', /condition/],
    ['./x', /begin with the name/],
    ['../x', /begin with the name/],
    ['/etc/passwd', /begin with the name/],
    ['x/y', /condition/],
    ['C:\\x', /condition/],
    ['x; python_version < "3"', /condition/],
    ['x==1.0; os_name == "nt"', /condition/],
    ['x # comment', /condition/],
    ['x==1.0 # comment', /condition/],
    [`x==\${HOME}`, /condition/],
    ['x==1.0+a.zip', /file name/],
    ['x==1.0+a.tar.gz', /file name/],
    ['x==', /condition/],
    ['x=1', /condition/],
    ['x>=1.*', /condition/],
    ['x==1,', /condition/],
    ['x==1 2', /condition/],
    ['x==latest', /condition/],
    ['x[', /condition/],
    ['x[]', /not the name of an extra/],
    ['x[a;b]', /not the name of an extra/],
    ['x[-r]', /not the name of an extra/],
    ['x.', /begin with the name/],
    ['_x', /begin with the name/],
    ['ｘ', /begin with the name/],
    ['пакет', /begin with the name/],
    ['', /begin with the name/],
    ['   ', /begin with the name/],
    ['x'.repeat(501), /longer than 500/],
  ])('refuses %j', (given, why) => {
    expect(() => parseRequirement(given)).toThrow(expect.objectContaining({ code: 'DEPS_INVALID' }));
    expect(() => parseRequirement(given)).toThrow(why);
  });

  it.each([
    [undefined],
    [null],
    [1],
    [['pandas']],
    [{ toString: () => 'pandas' }],
    [Object.create(null)],
    [Symbol('x')],
  ])('refuses what is no text', (given) => {
    expect(() => parseRequirement(given)).toThrow(/must be text/);
  });

  it('accepts only one plain word', () => {
    const alphabet = fc.constantFrom(...'aZ09._-[](),<>=!~+*@:/\\;# \n\t$`\'"|&%{}'.split(''));
    fc.assert(
      fc.property(fc.string({ unit: alphabet, maxLength: 30 }), (given) => {
        try {
          const { text } = parseRequirement(given);
          expect(text).toMatch(/^[a-z0-9][a-z0-9-]*(\[[a-z0-9,-]+\])?([~=!<>]=?=?[A-Za-z0-9.+!_*-]+,?)*$/);
          expect(parseRequirement(text).text).toBe(text);
        } catch (error) {
          if (!(error instanceof CellaError)) throw error;
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('package names', () => {
  it('are compared as the index does', () => {
    expect(packageName('Foo__Bar.-baz')).toBe('foo-bar-baz');
    expect(checkPackageName(' Foo_Bar ')).toBe('foo-bar');
  });

  it.each(['foo>=1', 'foo[x]', '-r x', '', 'foo; x', '../foo'])('contain nothing else: %j', (given) => {
    expect(() => checkPackageName(given)).toThrow(expect.objectContaining({ code: 'DEPS_INVALID' }));
  });
});

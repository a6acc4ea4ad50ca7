import { expect, it } from 'vitest';
import { Glob } from './glob.ts';

it.each([
  ['*', ['a', '.hidden', 'a b', 'a\nb', '$(x)'], ['a/b']],
  ['**', ['a', 'a/b', 'a/b/.c'], []],
  ['**/*.md', ['a.md', 'a/b.md', 'a/b/c.md'], ['a.mdx', 'a.md/b']],
  ['src/**/x', ['src/x', 'src/a/x', 'src/a/b/x'], ['src/a/x/y', 'x', 'other/x']],
  ['a?c', ['abc', 'a\u{1f600}c'], ['ac', 'abbc', 'a/c']],
  ['*.{ts,js}', ['a.ts', 'a.js'], ['a.py', 'a.{ts,js}']],
  ['{a,b/{c,d}}/*', ['a/x', 'b/c/x', 'b/d/x'], ['b/x', 'c/x']],
  ['\\*\\{', ['*{'], ['ab', 'a{']],
  ['{a', ['{a'], ['a']],
  ['a.b[c](d)+', ['a.b[c](d)+'], ['aXb[c](d)+']],
  ['./a//b', ['a/b'], []],
])('%s', (pattern, yes, no) => {
  const glob = new Glob(pattern);
  expect(yes.filter((path) => !glob.matches(path))).toEqual([]);
  expect(no.filter((path) => glob.matches(path))).toEqual([]);
});

it('knows which folders can contain matches', () => {
  const glob = new Glob('{a/*/c,d/**}');
  expect(['a', 'a/b', 'd', 'd/e/f'].filter((folder) => !glob.reaches(folder))).toEqual([]);
  expect(['b', 'a/b/c'].filter((folder) => glob.reaches(folder))).toEqual([]);
});

it('ends for patterns that are designed not to', () => {
  expect(new Glob(`${'*a'.repeat(400)}b`).matches('a'.repeat(200))).toBe(false);
  expect(new Glob('**/a/'.repeat(150)).matches('a/'.repeat(60))).toBe(false);
  expect(() => new Glob('{a,b}'.repeat(50))).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
  expect(() => new Glob('x'.repeat(2000))).toThrow(expect.objectContaining({ code: 'INVALID_REQUEST' }));
});

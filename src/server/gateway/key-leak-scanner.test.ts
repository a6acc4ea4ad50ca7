import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { holdsKey, KeyLeakScanner } from './key-leak-scanner.ts';

const KEY = 'sk-ant-api03-Aa0/_-"\\zZ9';

/** Pushes it in pieces of this size; true where all of it passes. */
function passes(text: string, size: number): boolean {
  const watch = new KeyLeakScanner(KEY);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) {
    if (!watch.passes(bytes.subarray(at, at + size))) return false;
  }
  return true;
}

const hex = (text: string): string =>
  [...text].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

describe('a key is found', () => {
  it.each([
    ['plain', KEY],
    ['in JSON', JSON.stringify({ a: KEY })],
    ['in JSON in JSON', JSON.stringify(JSON.stringify({ a: KEY }))],
    ['in JSON in JSON in JSON', JSON.stringify(JSON.stringify(JSON.stringify(KEY)))],
    ['with all of it escaped', hex(KEY)],
    [
      'with all of it escaped in capitals',
      hex(KEY)
        .replaceAll(/[a-f](?=[0-9a-f]{0,3})/g, (each) => each.toUpperCase())
        .replaceAll('\\U', '\\u'),
    ],
    ['with some of it escaped', KEY.replace('sk', '\\u0073k').replace('/', '\\/').replace('\\z', '\\\\z')],
    ['with all of it escaped twice', JSON.stringify(hex(KEY))],
    ['behind what looks like its beginning', `sk-ant-sk-ant-${KEY}`],
  ])('%s, in pieces of any size', (_name, text) => {
    for (const size of [1, 2, 3, 5, 7, 11, 1000]) expect(passes(`... ${text} ...`, size), String(size)).toBe(false);
    expect(holdsKey(text, KEY)).toBe(true);
  });

  it('in any mixture of plain and escaped characters', () => {
    const mixed = fc
      .array(fc.boolean(), { minLength: KEY.length, maxLength: KEY.length })
      .map((escaped) =>
        [...KEY].map((each, at) => (escaped[at] ? hex(each) : JSON.stringify(each).slice(1, -1))).join(''),
      );
    fc.assert(
      fc.property(mixed, fc.integer({ min: 1, max: 40 }), (text, size) => !passes(text, size)),
      { numRuns: 300 },
    );
  });
});

it('text without a key passes, also with many escapes, and with half of a key', () => {
  for (const size of [1, 3, 1000]) {
    expect(passes(KEY.slice(0, -1), size)).toBe(true);
    expect(passes(`${KEY.slice(0, 8)}\n${KEY.slice(8)}`, size)).toBe(true);
    expect(passes(`${'\\'.repeat(5000)}${hex('hello').repeat(100)}\\uZZZZ\\x\\u12`, size)).toBe(true);
  }
});

it('says whether the end may be the beginning of the key', () => {
  const watch = new KeyLeakScanner(KEY);
  const says = (text: string) => {
    watch.passes(Buffer.from(text));
    return [watch.mayFollow, watch.hasHalf];
  };
  expect(says('The key is sk-ant-')).toEqual([false, false]);
  expect(says('api')).toEqual([true, false]);
  expect(says('03-A')).toEqual([true, true]);
  expect(says(' and more')).toEqual([false, false]);
});

import { expect, test } from 'vitest';
import { ParsedDocumentCache } from './collection.ts';

test('a document is parsed once for each of its revisions', () => {
  const cache = new ParsedDocumentCache<string>();
  let parsed = 0;
  const parse = (value: string) => () => {
    parsed++;
    return value;
  };
  expect(cache.get('a', 1, parse('one'))).toBe('one');
  expect(cache.get('a', 1, parse('other'))).toBe('one');
  expect(cache.get('a', 2, parse('two'))).toBe('two');
  expect(cache.get('b', 2, parse('three'))).toBe('three');
  expect(parsed).toBe(3);
});

test('a document that cannot be parsed is tried again, and not cached', () => {
  const cache = new ParsedDocumentCache<string>();
  const fail = () => {
    throw new Error('damaged');
  };
  expect(() => cache.get('a', 1, fail)).toThrow('damaged');
  expect(cache.get('a', 1, () => 'whole')).toBe('whole');
});

test('the least recently used ones are dropped', () => {
  const cache = new ParsedDocumentCache<number>();
  for (let id = 0; id < 1001; id++) {
    cache.get(String(id), 1, () => id);
    cache.get('kept', 1, () => -1);
  }
  let again = 0;
  cache.get('0', 1, () => ++again);
  cache.get('kept', 1, () => ++again);
  expect(again).toBe(1);
});

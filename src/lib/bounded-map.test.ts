/** What is kept for whoever may ask is bounded, and what is used stays. */

import { expect, test } from 'vitest';
import { BoundedMap } from './bounded-map.ts';

test('the least recently set entry is removed for the next', () => {
  const latest = new BoundedMap<string, number>(2);
  latest.set('a', 1);
  latest.set('b', 2);
  latest.set('a', 3);
  latest.set('c', 4);
  expect([latest.get('a'), latest.get('b'), latest.get('c'), latest.size]).toEqual([3, undefined, 4, 2]);
});

test('a removed value is returned once', () => {
  const latest = new BoundedMap<string, number>(2);
  latest.set('a', 1);
  expect([latest.take('a'), latest.take('a'), latest.size]).toEqual([1, undefined, 0]);
});

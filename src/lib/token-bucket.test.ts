import { expect, test } from 'vitest';
import { TokenBucket } from './token-bucket.ts';

test('a bucket starts full, and fills at its rate, never beyond its burst', () => {
  const bucket = new TokenBucket(3, 10, 1000);
  expect([bucket.take(2, 1000), bucket.take(2, 1000), bucket.take(1, 1000)]).toEqual([0, 10, 0]);
  expect([bucket.wait(1, 1004), bucket.wait(3, 1004), bucket.take(1, 1010)]).toEqual([6, 26, 0]);
  expect([bucket.wait(3, 9000), bucket.take(3, 9000), bucket.wait(1, 9000)]).toEqual([0, 0, 10]);
});

test('a clock that is set back removes nothing', () => {
  const bucket = new TokenBucket(1, 10, 1000);
  expect([bucket.take(1, 500), bucket.wait(1, 510)]).toEqual([0, 0]);
});

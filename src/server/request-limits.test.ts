import { expect, test } from 'vitest';
import { CellaError } from '../protocol/errors.ts';
import { RateLimiter } from './request-limits.ts';

/** When to try again; undefined where it was admitted. */
function refusal(rates: RateLimiter, key: string): number | undefined {
  try {
    rates.admit(key);
    return undefined;
  } catch (error) {
    if (error instanceof CellaError && error.code === 'RATE_LIMITED') return Number(error.details.retryAfterMs);
    throw error;
  }
}

test('a burst passes, then one by one at the rate, and each refusal says when to retry', () => {
  let now = 0;
  const rates = new RateLimiter({ perSecond: 10, burst: 3, elapsed: () => now });
  for (let count = 0; count < 3; count += 1) expect(refusal(rates, 'a')).toBeUndefined();
  expect(refusal(rates, 'a')).toBe(100);
  now = 60;
  expect(refusal(rates, 'a')).toBe(40);
  now = 100;
  expect(refusal(rates, 'a')).toBeUndefined();
  expect(refusal(rates, 'a')).toBe(100);
  now = 10_000;
  for (let count = 0; count < 3; count += 1) expect(refusal(rates, 'a')).toBeUndefined();
  expect(refusal(rates, 'a')).toBe(100);
});

test('a request that costs more than the burst passes when the bucket is full', () => {
  let now = 0;
  const rates = new RateLimiter({ perSecond: 10, burst: 3, elapsed: () => now });
  rates.admit('a', 100);
  expect(refusal(rates, 'a')).toBe(100);
  now = 200;
  expect(() => rates.admit('a', 100)).toThrow(expect.objectContaining({ details: { retryAfterMs: 100 } }));
  now = 300;
  rates.admit('a', 100);
});

test('one key does not use up another’s limit', () => {
  const rates = new RateLimiter({ perSecond: 1, burst: 1, elapsed: () => 0 });
  expect(refusal(rates, 'a')).toBeUndefined();
  expect(refusal(rates, 'a')).toBe(1000);
  expect(refusal(rates, 'b')).toBeUndefined();
});

test('the number of buckets is limited, and the one in use stays', () => {
  const rates = new RateLimiter({ perSecond: 1, burst: 1, mostBuckets: 100, elapsed: () => 0 });
  expect(refusal(rates, 'busy')).toBeUndefined();
  for (let count = 0; count < 1000; count += 1) {
    expect(refusal(rates, `other ${count}`)).toBeUndefined();
    expect(refusal(rates, 'busy')).toBe(1000);
  }
  expect(rates.size).toBe(100);
});

import { describe, expect, it } from 'vitest';
import { median, percentile, rounded } from './statistics.ts';

describe('percentile', () => {
  it('is always one of the samples', () => {
    const samples = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(percentile(samples, 95)).toBe(95);
    expect(percentile(samples, 99)).toBe(99);
    expect(percentile([3, 1, 2], 99)).toBe(3);
    expect(percentile([7], 50)).toBe(7);
  });

  it('refuses to make a number of nothing', () => {
    expect(() => percentile([], 50)).toThrow(RangeError);
    expect(() => median([])).toThrow(RangeError);
  });
});

it('takes the middle, or the mean of the middle two', () => {
  expect(median([9, 1, 5])).toBe(5);
  expect(median([4, 1, 3, 2])).toBe(2.5);
});

it('rounds to four digits', () => {
  expect(rounded(1234.567)).toBe(1235);
  expect(rounded(0.0123456)).toBe(0.01235);
});

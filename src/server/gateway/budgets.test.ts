import { expect, test } from 'vitest';
import { estimateOf } from './budgets.ts';

test('an estimate uses the higher of two input prices', () => {
  const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
  const { usd, tokens } = estimateOf(1_000_000, 1_000_000, price);
  expect([usd, tokens]).toEqual([18.75, 2_000_000]);
  expect(estimateOf(10, 5, undefined)).toEqual({ usd: 0, tokens: 15 });
});

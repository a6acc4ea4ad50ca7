import { expect, test } from 'vitest';
import { estimateOf, wantedOf } from './estimate.ts';

test('what a call wants is read by each provider’s own name for it, and is never less than it could be', () => {
  expect(wantedOf({ max_tokens: 100 })).toBe(100);
  expect(wantedOf({ max_output_tokens: 100 })).toBe(100);
  expect(wantedOf({ max_completion_tokens: 100, max_tokens: 50 })).toBe(100);
  expect(wantedOf({ max_tokens: 100, n: 3 })).toBe(300);
  expect(wantedOf({ generationConfig: { maxOutputTokens: 100, candidateCount: 2 } })).toBe(200);
  for (const odd of [{}, { max_tokens: null }, { max_tokens: -5 }, { max_tokens: '1' }, { generationConfig: 7 }, 7]) {
    expect(wantedOf(odd)).toBe(32_000);
  }
  expect(wantedOf({ max_tokens: Number.MAX_SAFE_INTEGER })).toBe(10_000_000);
});

test('an estimate has the dearer of two prices of what goes in', () => {
  const price = { input: 3, output: 15, cacheRead: 0.3, cacheWrite: 3.75 };
  const { usd, tokens } = estimateOf(3_000_000, 1_000_000, price);
  expect([usd, tokens]).toEqual([18.75, 2_000_000]);
  expect(estimateOf(30, 5, undefined)).toEqual({ usd: 0, tokens: 15 });
});

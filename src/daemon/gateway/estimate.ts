/** What a call may come to, before it is made: as much as it says it wants to be answered, and all that it says. */

import { costOf, type Price } from './prices.ts';

/** A little more than most texts have, so that it is rather too much than too little. */
const BYTES_PER_TOKEN = 3;

export interface Estimate {
  readonly usd: number;
  readonly tokens: number;
}

export const tokensOf = (bytes: number): number => Math.ceil(bytes / BYTES_PER_TOKEN);

/** Of input that nobody has counted: a cache may have been written, which some providers take more for. */
export const dearest = (price: Price): Price => ({ ...price, input: Math.max(price.input, price.cacheWrite) });

export function estimateOf(bytes: number, wanted: number, price: Price | undefined): Estimate {
  const input = tokensOf(bytes);
  const counts = { input, output: wanted, cacheRead: 0, cacheWrite: 0 };
  return { usd: price ? costOf(counts, dearest(price)) : 0, tokens: input + wanted };
}

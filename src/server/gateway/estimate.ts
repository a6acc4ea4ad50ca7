/** What a call may come to, before it is made: as much as it says it wants to be answered, and all that it says. */

import { costOf, type Price } from './prices.ts';

export interface Estimate {
  readonly usd: number;
  readonly tokens: number;
}

/** Of input that nobody has counted: a cache may have been written, which some providers take more for. */
export const dearest = (price: Price): Price => ({ ...price, input: Math.max(price.input, price.cacheWrite) });

/** A token has a byte at least: digits and rare characters come to that, and whoever chooses the text can choose them. */
export function estimateOf(bytes: number, wanted: number, price: Price | undefined): Estimate {
  const counts = { input: bytes, output: wanted, cacheRead: 0, cacheWrite: 0 };
  return { usd: price ? costOf(counts, dearest(price)) : 0, tokens: bytes + wanted };
}

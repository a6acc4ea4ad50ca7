/** What a call may come to, before it is made: as much as it says it wants to be answered, and all that it says. */

import { z } from 'zod';
import { costOf, type Price } from './prices.ts';

/** Of a call that says nothing of it: what agents usually ask for. */
const USUAL_OUTPUT = 32_000;
const MOST_OUTPUT = 10_000_000;
const MOST_ANSWERS = 128;
/** A little more than most texts have, so that it is rather too much than too little. */
const BYTES_PER_TOKEN = 3;

export interface Estimate {
  readonly usd: number;
  readonly tokens: number;
}

const output = z.int().min(0).catch(USUAL_OUTPUT).optional();
const answers = z.int().min(1).max(MOST_ANSWERS).catch(MOST_ANSWERS).optional();
/** By the names that each of the providers has for it. */
const Wanted = z.looseObject({
  max_tokens: output,
  max_completion_tokens: output,
  max_output_tokens: output,
  n: answers,
  generationConfig: z.looseObject({ maxOutputTokens: output, candidateCount: answers }).catch({}).optional(),
});

export const WANTED: readonly string[] = Object.keys(Wanted.shape);

/** Tokens of output. */
export function wantedOf(body: unknown): number {
  const { data = {} } = Wanted.safeParse(body);
  const { max_tokens, max_completion_tokens, max_output_tokens, n, generationConfig: config } = data;
  const named = [max_tokens, max_completion_tokens, max_output_tokens, config?.maxOutputTokens];
  const all = named.filter((each) => each !== undefined);
  const most = all.length === 0 ? USUAL_OUTPUT : Math.max(...all);
  return Math.min(most * (n ?? config?.candidateCount ?? 1), MOST_OUTPUT);
}

export function estimateOf(bytes: number, wanted: number, price: Price | undefined): Estimate {
  const input = Math.ceil(bytes / BYTES_PER_TOKEN);
  // A cache may be written first, which some providers take more for.
  const dearer = price && { ...price, input: Math.max(price.input, price.cacheWrite) };
  const counts = { input, output: wanted, cacheRead: 0, cacheWrite: 0 };
  return { usd: dearer ? costOf(counts, dearer) : 0, tokens: input + wanted };
}

/** What one message of a response says about the tokens that were used. */

import { z } from 'zod';

export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
}

/**
 * `final`: the counts so far are those of the whole answer. `final-if-last`: they are, if no other message follows. `unknown`:
 * the answer failed, and the provider does not report what was used until then.
 */
export type Finality = 'final' | 'final-if-last' | 'unknown';

/** What one message of a stream says, or the whole answer if it is not a stream. Unknown parts are missing. */
export interface UsageReport {
  readonly counts?: Partial<TokenCounts> | undefined;
  readonly model?: string | undefined;
  /** What the model wrote: its length is an estimate where the counts never come. */
  readonly text?: string | undefined;
  /** Whether it is the last one, as the provider writes it. */
  readonly last?: Finality | undefined;
}

export type ReadMessage = (message: unknown) => UsageReport | undefined;

/** A provider that says something else here is not believed. */
export const Count = z
  .int()
  .min(0)
  .max(1_000_000_000)
  .nullish()
  .catch(undefined)
  .transform((count) => count ?? undefined);

export const Text = z
  .string()
  .nullish()
  .catch(undefined)
  .transform((text) => text ?? undefined);

export const joined = (...texts: (string | undefined)[]): string => texts.map((text) => text ?? '').join('');

/** Without undefined counts: they would replace earlier ones. */
export function definedCounts(
  counts: { readonly [K in keyof TokenCounts]?: number | undefined },
): Partial<TokenCounts> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined));
}

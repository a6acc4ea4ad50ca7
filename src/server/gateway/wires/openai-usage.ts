/** What OpenAI counts: both of its ways to ask say the same, under other names, and have what came from the cache in the input. */

import { z } from 'zod';
import { Count, type Counts, known } from './tally.ts';

const Details = z.object({ cached_tokens: Count }).nullish().catch(undefined);

/** `input` is without what came from the cache. */
export const OpenAiUsage = z
  .object({
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Details,
    prompt_tokens: Count,
    completion_tokens: Count,
    prompt_tokens_details: Details,
  })
  .nullish()
  .catch(undefined)
  .transform((usage): Partial<Counts> | undefined => {
    if (!usage) return undefined;
    const input = usage.input_tokens ?? usage.prompt_tokens;
    const cacheRead = (usage.input_tokens_details ?? usage.prompt_tokens_details)?.cached_tokens ?? 0;
    return known({
      input: input === undefined ? undefined : Math.max(0, input - cacheRead),
      output: usage.output_tokens ?? usage.completion_tokens,
      cacheRead,
    });
  });

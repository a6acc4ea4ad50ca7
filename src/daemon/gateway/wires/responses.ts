/** OpenAI Responses: all counts come with the last event, or in an answer that is no stream. */

import { z } from 'zod';
import { Count, known, lengthOf, type ReadMessage, Text } from './tally.ts';

const Response = z.object({
  model: Text,
  usage: z
    .object({
      input_tokens: Count,
      output_tokens: Count,
      input_tokens_details: z.object({ cached_tokens: Count }).nullish().catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

const Message = Response.extend({
  type: Text,
  object: Text,
  delta: Text,
  response: Response.optional().catch(undefined),
});

const LAST = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error']);

export const readResponses: ReadMessage = (message) => {
  const parsed = Message.safeParse(message);
  if (!parsed.success || (parsed.data.type === undefined && parsed.data.object === undefined)) return undefined;
  const { type = '', object, delta, response = parsed.data } = parsed.data;
  const { model, usage } = response;
  const cached = usage?.input_tokens_details?.cached_tokens ?? 0;
  return {
    model,
    counts: usage
      ? known({
          input: usage.input_tokens === undefined ? undefined : Math.max(0, usage.input_tokens - cached),
          output: usage.output_tokens,
          cacheRead: cached,
        })
      : undefined,
    characters: lengthOf(delta),
    last: LAST.has(type) || object === 'response',
  };
};

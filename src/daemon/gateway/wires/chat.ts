/** OpenAI chat completions: counts come in a chunk of their own at the end of a stream, where that is asked for. */

import { z } from 'zod';
import { Count, known, lengthOf, type ReadMessage, Text } from './tally.ts';

const ToolCall = z.object({ function: z.object({ arguments: Text }).optional().catch(undefined) });
const Delta = z.object({
  content: Text,
  reasoning_content: Text,
  tool_calls: z.array(ToolCall).nullish().catch(undefined),
});

const Chunk = z.object({
  object: z.string(),
  model: Text,
  choices: z
    .array(z.object({ delta: Delta.optional().catch(undefined) }))
    .optional()
    .catch(undefined),
  usage: z
    .object({
      prompt_tokens: Count,
      completion_tokens: Count,
      prompt_tokens_details: z.object({ cached_tokens: Count }).nullish().catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

export const readChat: ReadMessage = (message) => {
  const parsed = Chunk.safeParse(message);
  if (!parsed.success) return undefined;
  const { object, model, choices = [], usage } = parsed.data;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const texts = choices.flatMap(({ delta }) => [
    delta?.content,
    delta?.reasoning_content,
    ...(delta?.tool_calls ?? []).map((call) => call.function?.arguments),
  ]);
  return {
    model,
    counts: usage
      ? known({
          input: usage.prompt_tokens === undefined ? undefined : Math.max(0, usage.prompt_tokens - cached),
          output: usage.completion_tokens,
          cacheRead: cached,
        })
      : undefined,
    characters: lengthOf(...texts),
    last: object === 'chat.completion',
  };
};

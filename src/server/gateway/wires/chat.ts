/** OpenAI chat completions: counts come in a chunk of their own at the end of a stream, where that is asked for. */

import { z } from 'zod';
import { OpenAiUsage } from './openai-usage.ts';
import { joined, type ReadMessage, Text } from './tally.ts';

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
  usage: OpenAiUsage,
});

export const readChat: ReadMessage = (message) => {
  const parsed = Chunk.safeParse(message);
  if (!parsed.success) return undefined;
  const { object, model, choices = [], usage } = parsed.data;
  const texts = choices.flatMap(({ delta }) => [
    delta?.content,
    delta?.reasoning_content,
    ...(delta?.tool_calls ?? []).map((call) => call.function?.arguments),
  ]);
  return {
    model,
    counts: usage,
    text: joined(...texts),
    last: object === 'chat.completion' ? 'told' : undefined,
  };
};

/** Anthropic Messages: input in `message_start`, output in `message_delta`, all of it in an answer that is no stream. */

import { z } from 'zod';
import { Count, joined, known, type Last, type ReadMessage, Text } from './tally.ts';

const Usage = z
  .object({
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
  })
  .nullish()
  .catch(undefined);

const Message = z.object({
  type: z.string(),
  model: Text,
  usage: Usage,
  message: z.object({ model: Text, usage: Usage }).optional().catch(undefined),
  delta: z.object({ text: Text, thinking: Text, partial_json: Text }).optional().catch(undefined),
});

const lasts: ReadonlyMap<string, Last> = new Map([
  ['message_stop', 'told'],
  ['message', 'told'],
  ['error', 'failed'],
]);

export const readMessages: ReadMessage = (message) => {
  const parsed = Message.safeParse(message);
  if (!parsed.success) return undefined;
  const { type, model, usage, message: started, delta } = parsed.data;
  const told = usage ?? started?.usage;
  return {
    model: model ?? started?.model,
    counts: told
      ? known({
          input: told.input_tokens,
          output: told.output_tokens,
          cacheRead: told.cache_read_input_tokens,
          cacheWrite: told.cache_creation_input_tokens,
        })
      : undefined,
    text: joined(delta?.text, delta?.thinking, delta?.partial_json),
    last: lasts.get(type),
  };
};

/** OpenAI Responses: all counts come with the last event, or in an answer that is no stream. */

import { z } from 'zod';
import { OpenAiUsage } from './openai-usage.ts';
import { joined, type Last, type ReadMessage, Text } from './tally.ts';

const Response = z.object({ model: Text, usage: OpenAiUsage });

const Message = Response.extend({
  type: Text,
  object: Text,
  delta: Text,
  response: Response.optional().catch(undefined),
});

const lasts: ReadonlyMap<string, Last> = new Map([
  ['response.completed', 'told'],
  ['response.incomplete', 'told'],
  ['response.failed', 'told'],
  ['error', 'failed'],
]);

export const readResponses: ReadMessage = (message) => {
  const parsed = Message.safeParse(message);
  if (!parsed.success || (parsed.data.type === undefined && parsed.data.object === undefined)) return undefined;
  const { type = '', object, delta, response = parsed.data } = parsed.data;
  const { model, usage } = response;
  return {
    model,
    counts: usage,
    text: joined(delta),
    last: object === 'response' ? 'told' : lasts.get(type),
  };
};

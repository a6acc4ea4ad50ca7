/** OpenAI Responses: all counts come with the last event, or in an answer that is no stream. */

import { z } from 'zod';
import { OpenAiUsage } from './openai-usage.ts';
import { lengthOf, type ReadMessage, Text } from './tally.ts';

const Response = z.object({ model: Text, usage: OpenAiUsage });

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
  return {
    model,
    counts: usage,
    characters: lengthOf(delta),
    last: LAST.has(type) || object === 'response',
  };
};

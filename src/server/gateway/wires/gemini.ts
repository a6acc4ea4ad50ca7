/** Gemini: every message has the counts so far. */

import { z } from 'zod';
import { Count, joined, known, type ReadMessage, Text } from './tally.ts';

const Message = z.object({
  modelVersion: Text,
  candidates: z
    .array(
      z.object({
        content: z
          .object({
            parts: z
              .array(z.object({ text: Text }))
              .optional()
              .catch(undefined),
          })
          .optional()
          .catch(undefined),
      }),
    )
    .optional()
    .catch(undefined),
  usageMetadata: z
    .object({
      promptTokenCount: Count,
      cachedContentTokenCount: Count,
      candidatesTokenCount: Count,
      thoughtsTokenCount: Count,
      toolUsePromptTokenCount: Count,
    })
    .optional()
    .catch(undefined),
});

export const readGemini: ReadMessage = (message) => {
  const parsed = Message.safeParse(message);
  const { candidates, usageMetadata: usage, modelVersion } = parsed.data ?? {};
  if (!candidates && !usage) return undefined;
  const parts = (candidates ?? []).flatMap(({ content }) => content?.parts ?? []);
  return {
    model: modelVersion,
    counts: usage && countsOf(usage),
    text: joined(...parts.map(({ text }) => text)),
    last: 'perhaps',
  };
};

function countsOf(usage: NonNullable<z.infer<typeof Message>['usageMetadata']>) {
  const { promptTokenCount: prompt, cachedContentTokenCount: cached = 0, toolUsePromptTokenCount: tools = 0 } = usage;
  const { candidatesTokenCount: written, thoughtsTokenCount: thought } = usage;
  return known({
    input: prompt === undefined ? undefined : Math.max(0, prompt - cached) + tools,
    // A count of none is left out.
    output:
      prompt === undefined && written === undefined && thought === undefined
        ? undefined
        : (written ?? 0) + (thought ?? 0),
    cacheRead: cached,
  });
}

/** Parses a kernel's answers about its variables. A kernel may be hostile, so every answer is checked. */

import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { Completion } from '../protocol/kernel-state.ts';
import { parseOrThrow } from '../protocol/parse.ts';

const CompletionAnswer = z.object({
  matches: z.array(z.object({ text: z.string(), type: z.string() })),
  prefix: z.string(),
});

export function parseAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const toError = () =>
    new CellaError('KERNEL_PROTOCOL', 'The kernel answered a question with something of another shape.');
  return parseOrThrow(schema, answer, toError);
}

export function parseCompletion(answer: unknown, cursor: number): Completion {
  const { matches, prefix } = parseAnswer(CompletionAnswer, answer);
  return { matches, start: Math.max(0, cursor - prefix.length), end: cursor };
}

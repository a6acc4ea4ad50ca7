/** Parses a kernel's answers about its variables. A kernel may be hostile, so every answer is checked. */

import { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';
import type { Completeness, Completion, Inspection, Variable } from './api.ts';

const CompletionAnswer = z.object({
  matches: z.array(z.object({ text: z.string(), type: z.string() })),
  prefix: z.string(),
});
const InspectionAnswer = z.object({
  found: z.boolean(),
  name: z.string().optional(),
  type: z.string().optional(),
  signature: z.string().optional(),
  doc: z.string().optional(),
  source: z.string().optional(),
  repr: z.string().optional(),
});
const CompletenessAnswer = z.discriminatedUnion('status', [
  z.object({ status: z.literal('complete') }),
  z.object({ status: z.literal('incomplete'), indent: z.string() }),
  z.object({ status: z.literal('invalid'), message: z.string() }),
]);
const VariablesAnswer = z.array(
  z.object({
    name: z.string(),
    type: z.string(),
    size: z.number(),
    length: z.string().optional(),
    preview: z.string(),
  }),
);

function checkAnswer<T>(schema: z.ZodType<T>, answer: unknown): T {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new CellaError('KERNEL_PROTOCOL', 'The kernel answered a question with something of another shape.');
}

export function parseCompletion(answer: unknown, cursor: number): Completion {
  const { matches, prefix } = checkAnswer(CompletionAnswer, answer);
  return { matches, start: Math.max(0, cursor - prefix.length), end: cursor };
}

export function parseInspection(answer: unknown): Inspection {
  return checkAnswer(InspectionAnswer, answer);
}

export const parseCompleteness = (answer: unknown): Completeness => checkAnswer(CompletenessAnswer, answer);

export function parseVariables(answer: unknown): Variable[] {
  return checkAnswer(VariablesAnswer, answer).map(({ length, ...rest }) =>
    length === undefined ? rest : { ...rest, length },
  );
}

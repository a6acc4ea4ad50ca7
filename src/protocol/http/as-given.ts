/** Checks without filling in: what nobody wrote stays unsaid, so that a default that changes later holds for it too. */

import { z } from 'zod';
import { problemsOf } from '../error-body.ts';

const originals = new WeakMap<z.ZodType, z.ZodType>();

/** Takes what the schema takes, and gives it as it was written. */
export function asGiven<S extends z.ZodType>(schema: S): z.ZodType<z.input<S>> {
  const checked = z.custom<z.input<S>>().superRefine((value, context) => {
    const outcome = schema.safeParse(value);
    for (const { path, message } of outcome.error ? problemsOf(outcome.error) : []) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
  });
  originals.set(checked, schema);
  return checked;
}

/** The schema that tells what it takes, for a document. */
export function originalOf(schema: z.ZodType): z.ZodType {
  return originals.get(schema) ?? schema;
}

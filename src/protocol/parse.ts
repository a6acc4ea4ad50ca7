/** Parses a value by its schema, or throws. */

import type { z } from 'zod';
import { describeIssues } from './error-body.ts';
import { CellaError } from './errors.ts';

export function parseOrThrow<S extends z.ZodType>(
  schema: S,
  value: unknown,
  toError: (error: z.ZodError) => Error,
): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw toError(parsed.error);
}

/** For options that a program passes. Throws `INVALID_OPTIONS` with every problem. */
export function parseOptions<S extends z.ZodType>(schema: S, options: unknown): z.output<S> {
  return parseOrThrow(schema, options, (error) => {
    const problems = describeIssues(error).map(
      ({ path, message }) => `${path.map(String).join('.') || 'options'}: ${message}`,
    );
    return invalidOptions(problems);
  });
}

export function invalidOptions(problems: readonly string[]): CellaError {
  return new CellaError('INVALID_OPTIONS', `These options cannot be used: ${problems.join('; ')}.`, {
    details: { problems },
  });
}

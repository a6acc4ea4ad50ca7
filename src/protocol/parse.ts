/** Parses values by schemas, with readable messages for what is wrong. Also converts errors for the wire. */

import { z } from 'zod';
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

/**
 * A list with `.max(most)` that checks the length first: a plain schema would check every item of a long list before it
 * refuses it.
 */
export function boundedList<T extends z.ZodArray>(list: T, most: number): T {
  const { parse } = list._zod;
  list._zod.parse = (payload, context) => {
    const { value } = payload;
    if (Array.isArray(value) && value.length > most) payload.value = value.slice(0, most + 1);
    return parse(payload, context);
  };
  return list;
}

/** For options from a program. Throws `INVALID_OPTIONS` with every problem. */
export function parseOptions<S extends z.ZodType>(schema: S, options: unknown): z.output<S> {
  return parseOrThrow(schema, options, (error) => invalidOptions(describeProblems(error, 'options')));
}

/** For input from a user of the server. Throws `INVALID_REQUEST`. `what` names the input in the message. */
export function parseInput<S extends z.ZodType>(schema: S, input: unknown, what: string): z.output<S> {
  return parseOrThrow(schema, input, (error) => {
    const problems = describeProblems(error);
    return new CellaError('INVALID_REQUEST', `Invalid ${what}: ${problems.join('; ')}.`, { details: { problems } });
  });
}

export function invalidOptions(problems: readonly string[]): CellaError {
  return new CellaError('INVALID_OPTIONS', `Invalid options: ${problems.join('; ')}.`, { details: { problems } });
}

export const ErrorBody = z
  .object({
    error: z.object({
      code: z.string().meta({ description: 'One of the codes in docs/errors.md.' }),
      message: z.string(),
      advice: z.string().meta({ description: 'What the reader can do about it.' }),
      details: z.record(z.string(), z.unknown()),
    }),
  })
  .meta({ id: 'Failure' });
export type ErrorBody = z.infer<typeof ErrorBody>;

/** The last item of a stream that fails, or the frame of a WebSocket that reports an error. */
export const ErrorItem = z.object({ type: z.literal('error'), ...ErrorBody.shape }).meta({ id: 'ErrorItem' });

const MOST_PROBLEMS = 20;

/** Names the place of each problem, never the value, which may be a secret. `whole`: the name for the value itself. */
export function describeProblems(error: z.ZodError, whole = ''): string[] {
  return error.issues
    .slice(0, MOST_PROBLEMS)
    .flatMap((issue) => explain(issue, []))
    .slice(0, MOST_PROBLEMS)
    .map(({ path, message }) => {
      const place = path.map(String).join('.').slice(0, 200) || whole;
      return place === '' ? message : `${place}: ${message}`;
    });
}

export const firstProblem = (error: z.ZodError): string => describeProblems(error)[0] ?? 'it cannot be read';

interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

export function describeIssues({ issues }: z.ZodError): Problem[] {
  return issues.flatMap((issue) => explain(issue, []));
}

function explain(issue: z.core.$ZodIssue, before: readonly PropertyKey[]): Problem[] {
  const path = [...before, ...issue.path];
  if (issue.code === 'invalid_union') {
    const closest = issue.errors.toSorted((one, other) => deepest(other) - deepest(one))[0];
    if (closest && deepest(closest) > 0) return closest.flatMap((inner) => explain(inner, path));
  }
  // A missing value is reported as missing, not as a wrong type.
  const message = issue.message.replace(
    /^Invalid input: expected (\w+), received undefined$/,
    'is missing, expected $1',
  );
  return [{ path, message }];
}

function deepest(issues: readonly z.core.$ZodIssue[]): number {
  return Math.max(
    ...issues.map((issue) => {
      const below = issue.code === 'invalid_union' ? issue.errors.map(deepest) : [];
      return issue.path.length + Math.max(0, ...below);
    }),
  );
}

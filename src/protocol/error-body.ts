/** Errors on the wire, and what a schema has against a value in words. Match on `code`, never on the text. */

import { z } from 'zod';

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

/** The last item of a stream that fails, and the frame of a WebSocket about a failure. */
export const ErrorItem = z.object({ type: z.literal('error'), ...ErrorBody.shape }).meta({ id: 'ErrorItem' });

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
  return [{ path, message: issue.message }];
}

function deepest(issues: readonly z.core.$ZodIssue[]): number {
  return Math.max(
    ...issues.map((issue) => {
      const below = issue.code === 'invalid_union' ? issue.errors.map(deepest) : [];
      return issue.path.length + Math.max(0, ...below);
    }),
  );
}

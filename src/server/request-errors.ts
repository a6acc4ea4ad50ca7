/** Errors that several parts of the server answer with. */

import type { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';

/** By then another server, or this one after a restart, may take the work. */
const RETRY_AFTER_MS = 5000;

/** The server takes no new work. `advice`: what to do instead of asking again. */
export function drainingError(advice?: string): CellaError {
  return new CellaError('SERVER_STOPPING', 'The server is ending and takes no new work.', {
    details: { retryAfterMs: RETRY_AFTER_MS },
    advice,
  });
}

const MOST_ISSUES = 5;

/** INVALID_REQUEST if the input does not fit the schema. `what` completes "this is no valid …". */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown, what: string): z.output<T> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, MOST_ISSUES).map(({ path, message }) => ({
    path: path.map(String).join('.'),
    message,
  }));
  const told = issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
  throw new CellaError('INVALID_REQUEST', `This is no valid ${what}: ${told}.`, { details: { issues } });
}

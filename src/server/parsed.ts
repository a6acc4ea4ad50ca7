/** Input checked against its schema; what is wrong with it is told by name. */

import type { z } from 'zod';
import { CellaError } from '../protocol/errors.ts';

const MOST_ISSUES = 5;

/** INVALID_REQUEST where it does not fit. `what` completes "this is no valid …". */
export function parsed<T extends z.ZodType>(schema: T, input: unknown, what: string): z.output<T> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, MOST_ISSUES).map(({ path, message }) => ({
    path: path.map(String).join('.'),
    message,
  }));
  const told = issues.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`)).join('; ');
  throw new CellaError('INVALID_REQUEST', `This is no valid ${what}: ${told}.`, { details: { issues } });
}

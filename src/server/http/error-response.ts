/** Errors as HTTP responses: code, message, advice and details, but never a stack or other internals. */

import { HTTPException } from 'hono/http-exception';
import { z } from 'zod';
import type { ErrorBody } from '../../protocol/error-body.ts';
import { CellaError, errorCodes } from '../../protocol/errors.ts';
import { diskReason } from '../../storage/file/file-errors.ts';
import { ownedElsewhere } from '../sessions/session-lock.ts';
import { pageHeaders } from './pages.ts';

/** What somebody may be told of any error. What was not foreseen is told by the id of its request alone. */
export function toCellaError(error: unknown, requestId: string): CellaError {
  if (error instanceof CellaError) return error.code === 'LEASE_LOST' ? ownedElsewhere() : error;
  if (error instanceof z.ZodError) return invalidRequest(error);
  if (error instanceof HTTPException && error.status < 500) {
    return new CellaError('INVALID_REQUEST', error.message || 'The request cannot be read.', { cause: error });
  }
  const reason = diskReason(error);
  if (reason !== undefined) {
    return new CellaError('STORAGE_FAILED', `The server cannot read or write its files: ${reason}.`, { cause: error });
  }
  return new CellaError('INTERNAL', `Something went wrong here; the log tells more of request ${requestId}.`, {
    cause: error,
    details: { requestId },
  });
}

export function invalidRequest(error: z.ZodError): CellaError {
  const problems = error.issues
    .slice(0, 20)
    .map(({ path, message }) => [...(path.length > 0 ? [path.map(String).join('.')] : []), plain(message)].join(': '));
  return new CellaError('INVALID_REQUEST', `The request cannot be used: ${problems.join('; ')}.`, {
    details: { problems },
  });
}

/** What is left out is no input that could be of a wrong type. */
function plain(message: string): string {
  return message.replace(/^Invalid input: expected (\w+), received undefined$/, 'is missing, expected $1');
}

export function errorBody(error: CellaError): ErrorBody {
  const { code, message, advice, details } = error;
  return { error: { code, message, advice, details: { ...details } } };
}

function statusOf({ code }: CellaError): number {
  return errorCodes[code].http;
}

/** As JSON, or as the page that is given for somebody who reads it. */
export function errorResponse(error: CellaError, page?: string): Response {
  const headers = new Headers(page === undefined ? { 'content-type': 'application/json' } : pageHeaders);
  const { retryAfterMs } = error.details;
  if (typeof retryAfterMs === 'number') headers.set('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))));
  if (error.code === 'UNAUTHENTICATED') headers.set('www-authenticate', 'Bearer realm="cella"');
  return new Response(page ?? JSON.stringify(errorBody(error)), { status: statusOf(error), headers });
}

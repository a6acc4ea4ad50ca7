/** Errors as HTTP responses: code, message, advice and details, but never a stack or other internals. */

import { HTTPException } from 'hono/http-exception';
import { z } from 'zod';
import { errorCodes } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { describeProblems, type ErrorBody } from '../../protocol/parse.ts';
import { diskReason } from '../../storage/file/file-errors.ts';
import { ownedElsewhere } from '../sessions/session-ending.ts';
import { pageHeaders } from './pages.ts';

/** The public form of an error. An unexpected error shows only its request id. */
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
  return new CellaError('INTERNAL', `Unexpected error. The server’s log has details for request ${requestId}.`, {
    cause: error,
    details: { requestId },
  });
}

export function invalidRequest(error: z.ZodError): CellaError {
  const problems = describeProblems(error);
  return new CellaError('INVALID_REQUEST', `Invalid request: ${problems.join('; ')}.`, { details: { problems } });
}

export function errorBody(error: CellaError): ErrorBody {
  const { code, message, advice, details } = error;
  return { error: { code, message, advice, details: { ...details } } };
}

/** Responds with JSON, or with the given page for people. */
export function errorResponse(error: CellaError, page?: string): Response {
  const headers = new Headers(page === undefined ? { 'content-type': 'application/json' } : pageHeaders);
  const { retryAfterMs } = error.details;
  if (typeof retryAfterMs === 'number') headers.set('retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000))));
  if (error.code === 'UNAUTHENTICATED') headers.set('www-authenticate', 'Bearer realm="cella"');
  return new Response(page ?? JSON.stringify(errorBody(error)), { status: errorCodes[error.code].http, headers });
}

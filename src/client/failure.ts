/** Failures of the server as the errors that the library throws. */

import { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import { Failure } from '../protocol/error-body.ts';
import { CellaError, type ErrorCode, errorCodes } from '../protocol/errors.ts';

const Code = z.custom<ErrorCode>((code) => typeof code === 'string' && Object.hasOwn(errorCodes, code));
type Told = {
  readonly code: string;
  readonly message: string;
  readonly details?: Record<string, unknown> | undefined;
  readonly advice?: string | undefined;
};

/** A server that is newer may have codes that are not known here. */
export function toError({ code, message, details = {}, advice }: Told): CellaError {
  const known = Code.safeParse(code);
  // That of the code is put in the caller's own words.
  const own = known.success && advice !== undefined && advice !== errorCodes[known.data].advice ? { advice } : {};
  return known.success
    ? new CellaError(known.data, message, { details, ...own })
    : new CellaError('INTERNAL', `${message} (${code})`, { details });
}

export async function errorOf(response: Response): Promise<CellaError> {
  const text = await response.text().catch(() => ''); // the connection broke; the status is what is known
  const failure = Failure.safeParse(tryParseJson(text));
  if (failure.success) return toError(failure.data.error);
  return new CellaError('INTERNAL', `The server answered with status ${response.status} and no reason.`);
}

export function isCode(error: unknown, ...codes: readonly ErrorCode[]): error is CellaError {
  return error instanceof CellaError && codes.includes(error.code);
}

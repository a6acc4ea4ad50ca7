/** The error class of Cella. */

import { type ErrorCode, errorCodes } from './error-codes.ts';

interface ErrorFacts {
  readonly cause?: unknown;
  readonly details?: Record<string, unknown>;
  /** Replaces the advice of the code, if that would mislead. */
  readonly advice?: string;
}

/** Match on `code`, never on the text. `details` holds facts for programs. */
export class CellaError extends Error {
  override readonly name = 'CellaError';
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** A field, not a getter, so that Node prints it for uncaught errors. */
  readonly advice: string;
  readonly #ownAdvice: string | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorFacts = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options.details ?? {};
    this.advice = options.advice ?? errorCodes[code].advice;
    this.#ownAdvice = options.advice;
  }

  /** Undefined if the advice is that of the code. */
  get ownAdvice(): string | undefined {
    return this.#ownAdvice;
  }

  get retryable(): boolean {
    return errorCodes[this.code].retry;
  }

  toJSON(): { code: ErrorCode; message: string; advice: string; details: Readonly<Record<string, unknown>> } {
    return { code: this.code, message: this.message, advice: this.advice, details: this.details };
  }
}

/** A disk or network share that does not answer. `message` names the folder. */
export function folderHangs(message: string): CellaError {
  const advice = 'Check the disk or network share that it is on, and try again when it answers.';
  return new CellaError('STORAGE_FAILED', message, { advice });
}

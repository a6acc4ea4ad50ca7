/** Errors of the gateway in the format of each provider, and the last error of each turn in ours. */

import type { ServerResponse } from 'node:http';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';
import { providerAdapters } from './providers/all-providers.ts';

/** The body of an error that the gateway answers with in the provider's place. */
export function providerErrorBody(provider: Provider, status: number, error: CellaError): Record<string, unknown> {
  return providerAdapters[provider].errorBody({ status, code: error.code, message: textOf(error) });
}

/** What breaks off in the middle of a stream, as an event of that stream. */
export function providerErrorEvent(provider: Provider, error: CellaError): string {
  const status = errorCodes[error.code].http;
  return providerAdapters[provider].errorEvent({ status, code: error.code, message: textOf(error) });
}

export function sendProviderError(response: ServerResponse, provider: Provider, error: CellaError): void {
  const status = errorCodes[error.code].http;
  const text = JSON.stringify(providerErrorBody(provider, status, error));
  const retryAfterMs = Number(error.details.retryAfterMs);
  response
    .writeHead(status, {
      'content-type': 'application/json',
      // The agents' libraries retry by themselves on statuses that look temporary.
      'x-should-retry': String(error.retryable && error.details.lasting !== true),
      ...(retryAfterMs > 0 ? { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } : {}),
      'content-length': String(Buffer.byteLength(text)),
    })
    .end(text);
}

export const callerGone = (): CellaError => new CellaError('ABORTED', 'The caller no longer waits for the answer.');

const textOf = ({ message, advice }: CellaError): string => `${message} ${advice}`;

/** What the person who prompts, or the operator, can do something about. */
const TOLD: ReadonlySet<ErrorCode> = new Set([
  'BUDGET_EXCEEDED',
  'MODEL_NOT_ALLOWED',
  'CREDENTIAL_MISSING',
  'CREDENTIAL_UNREADABLE',
]);
/** A bound for turns whose error is never taken. */
const MOST_TURNS = 1000;

export class TurnErrors {
  readonly #refused = new BoundedMap<string, CellaError>(MOST_TURNS);

  note(turn: string, error: CellaError): void {
    if (!TOLD.has(error.code) && error.details.lasting !== true) return;
    this.#refused.set(turn, error);
  }

  /** A call that was answered: what was refused before is not why the turn ends. */
  answered(turn: string): void {
    this.#refused.delete(turn);
  }

  /** Asked for once, when the turn is over. */
  take(turn: string): CellaError | undefined {
    return this.#refused.take(turn);
  }
}

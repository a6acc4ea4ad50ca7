/** Errors of the gateway in the format of each provider, and the last error of each turn in ours. */

import type { ServerResponse } from 'node:http';
import { BoundedMap } from '../../lib/bounded-map.ts';
import type { Provider } from '../../protocol/enums.ts';
import { type CellaError, type ErrorCode, errorCodes } from '../../protocol/errors.ts';

interface ProviderError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Readonly<Record<string, unknown>>;
}

const anthropicTypes: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
};

const geminiStates: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
};

function providerError(provider: Provider, error: CellaError): ProviderError {
  const status = errorCodes[error.code].http;
  const retryAfterMs = Number(error.details.retryAfterMs);
  return {
    status,
    headers: {
      'content-type': 'application/json',
      // The agents' own libraries try again where a status looks as if that could help.
      'x-should-retry': String(error.retryable && error.details.lasting !== true),
      ...(retryAfterMs > 0 ? { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } : {}),
    },
    body: providerErrorBody(provider, status, error),
  };
}

export function providerErrorBody(provider: Provider, status: number, error: CellaError): ProviderError['body'] {
  const message = `${error.message} ${error.advice}`;
  switch (provider) {
    case 'anthropic':
      return { type: 'error', error: { type: anthropicTypes[status] ?? 'api_error', message } };
    case 'openai':
      return { error: { message, type: openaiType(status, error), param: null, code: openaiCode(error) } };
    case 'gemini':
      return { error: { code: status, message, status: geminiStates[status] ?? 'INTERNAL' } };
  }
}

/** What breaks off in the middle of a stream, as an event of that stream. */
export function providerErrorEvent(provider: Provider, error: CellaError): string {
  const body = providerErrorBody(provider, errorCodes[error.code].http, error);
  const name = provider === 'gemini' ? '' : 'event: error\n';
  const data = provider === 'openai' ? { type: 'error', ...body } : body;
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

export function sendProviderError(response: ServerResponse, provider: Provider, error: CellaError): void {
  const { status, headers, body } = providerError(provider, error);
  const text = JSON.stringify(body);
  response.writeHead(status, { ...headers, 'content-length': String(Buffer.byteLength(text)) }).end(text);
}

function openaiType(status: number, { code }: CellaError): string {
  if (status === 429) return code === 'BUDGET_EXCEEDED' ? 'insufficient_quota' : 'requests';
  return status < 500 ? 'invalid_request_error' : 'server_error';
}

function openaiCode({ code }: CellaError): string {
  if (code === 'UNAUTHENTICATED') return 'invalid_api_key';
  return code === 'BUDGET_EXCEEDED' ? 'insufficient_quota' : code.toLowerCase();
}

/** What the person who prompts, or the operator, can do something about. */
const TOLD: ReadonlySet<ErrorCode> = new Set([
  'BUDGET_EXCEEDED',
  'MODEL_NOT_ALLOWED',
  'CREDENTIAL_MISSING',
  'CREDENTIAL_UNREADABLE',
]);
/** Of turns that nobody asks for any more. */
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

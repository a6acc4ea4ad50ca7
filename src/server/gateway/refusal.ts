/** A refusal in the words of each provider, so that an agent understands it as one of its own provider's errors. */

import type { ServerResponse } from 'node:http';
import type { Provider } from '../../protocol/enums.ts';
import { type CellaError, errorCodes } from '../../protocol/errors.ts';

export interface Refusal {
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

export function refusalOf(provider: Provider, error: CellaError): Refusal {
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
    body: bodyOf(provider, status, error),
  };
}

export function bodyOf(provider: Provider, status: number, error: CellaError): Refusal['body'] {
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
export function eventOf(provider: Provider, error: CellaError): string {
  const body = bodyOf(provider, errorCodes[error.code].http, error);
  const name = provider === 'gemini' ? '' : 'event: error\n';
  const data = provider === 'openai' ? { type: 'error', ...body } : body;
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

export function refuse(response: ServerResponse, provider: Provider, error: CellaError): void {
  const { status, headers, body } = refusalOf(provider, error);
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

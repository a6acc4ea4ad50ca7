/**
 * Each provider's API at the gateway: which methods, paths, queries and headers pass, and the form of the gateway's own
 * errors. Everything else is refused.
 */

import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { type Provider, providers } from '../../protocol/enums.ts';
import { errorCodes } from '../../protocol/error-codes.ts';
import { CellaError } from '../../protocol/errors.ts';
import { holdsKey } from './key-leak-scanner.ts';
import { anthropic } from './providers/anthropic.ts';
import { gemini } from './providers/gemini.ts';
import { openai } from './providers/openai.ts';
import type { ApiFields, ApiFormat, ProviderAdapter } from './providers/provider.ts';

export interface ProviderRoute {
  readonly provider: Provider;
  readonly fields: ApiFields;
  readonly format: ApiFormat;
  /** The provider's path, with the allowed part of the query. */
  readonly target: string;
  /** Set if the path names the model. */
  readonly model: string | undefined;
  readonly takesBody: boolean;
  /** Whether the answer is a stream, if the path determines that. */
  readonly streams: boolean | undefined;
}

/** The query parameters that are passed on. None of them may carry a key. */
const QUERY = new Set(['beta', 'alt', 'limit', 'after_id', 'before_id', 'pageSize', 'pageToken']);
const VALUE = /^[\w.-]{0,200}$/;
/** The values of Gemini's `alt` that the gateway can read. */
const FORMS = new Set(['json', 'sse']);

/** The provider named by the first part of the path. */
export function providerOf(url: string): Provider | undefined {
  return providers.find((name) => url.startsWith(`/${name}/`));
}

/** Undefined if the path is not allowed. */
export function findProviderRoute(provider: Provider, method: string, url: string): ProviderRoute | undefined {
  const [path = '', ...query] = url.slice(provider.length + 1).split('?');
  for (const { method: wanted, path: shape, format, fields } of providerAdapters[provider].routes) {
    const found = wanted === method ? shape.exec(path) : null;
    if (!found) continue;
    const target = path + queryOf(query.join('?'));
    const { model, action } = found.groups ?? {};
    const streams = action === undefined ? undefined : action === 'streamGenerateContent';
    return { provider, format, fields, target, model, takesBody: method === 'POST', streams };
  }
  return undefined;
}

function queryOf(text: string): string {
  const kept = [...new URLSearchParams(text)].filter(([name, value]) => isKept(name, value));
  return kept.length === 0 ? '' : `?${new URLSearchParams(kept)}`;
}

const isKept = (name: string, value: string): boolean =>
  QUERY.has(name) && VALUE.test(value) && (name !== 'alt' || FORMS.has(value));

const ASKED = new Set([
  'accept',
  'anthropic-beta',
  'anthropic-version',
  'openai-beta',
  'user-agent',
  'x-app',
  'x-goog-api-client',
]);
const ASKED_BEGIN = /^x-stainless-[a-z-]{1,40}$/;

const ANSWERED = new Set(['content-type', 'openai-processing-ms', 'request-id', 'retry-after', 'retry-after-ms']);
const ANSWERED_TOO = new Set(['x-request-id', 'x-should-retry']);
const ANSWERED_BEGIN = /^(anthropic-ratelimit-|x-ratelimit-)[a-z-]{1,60}$/;

/**
 * Requests no compression, because the gateway reads the usage from the answer. The type names no charset: in another one, a
 * provider could read something else than what was checked.
 */
export function requestHeaders(
  given: IncomingHttpHeaders,
  { provider, key, bodyBytes }: { provider: Provider; key: string; bodyBytes: number | undefined },
): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ASKED.has(name) || ASKED_BEGIN.test(name));
  const body = bodyBytes === undefined ? {} : { 'content-type': 'application/json', 'content-length': bodyBytes };
  return { ...passed, 'accept-encoding': 'identity', ...body, ...providerAdapters[provider].keyHeader(key) };
}

/** Drops every header that contains the key. */
export function responseHeaders(given: IncomingHttpHeaders, key: string): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ANSWERED.has(name) || ANSWERED_TOO.has(name) || ANSWERED_BEGIN.test(name));
  return Object.fromEntries(Object.entries(passed).filter(([, value]) => !holdsKey(value, key)));
}

/** A version or beta changes the fields of an API, so an unknown one is refused like an unknown field. */
export function checkVersions(given: IncomingHttpHeaders, provider: Provider, added: ReadonlySet<string>): void {
  for (const [header, known] of Object.entries(providerAdapters[provider].versionHeaders)) {
    for (const value of String(given[header] ?? '').split(',')) {
      const name = value.trim();
      const [flag = ''] = name.split('=');
      if (name === '' || added.has(flag) || known.test(name.replace(/-\d{4}-?\d{2}-?\d{2}$/, ''))) continue;
      throw unknownVersion(provider, header, /^[\w.=-]{1,100}$/.test(name) ? name : '…');
    }
  }
}

function unknownVersion(provider: Provider, header: string, shown: string): CellaError {
  return new CellaError(
    'INVALID_REQUEST',
    `The request has "${shown}" in the header ${header}, which the gateway does not know.`,
    {
      details: { field: header, permanent: true },
      advice: `Leave it out. If the provider has added it, the operator can allow it with \`--provider-field ${provider}=NAME\`; see docs/gateway.md.`,
    },
  );
}

function chosen(given: IncomingHttpHeaders, passes: (name: string) => boolean): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === 'string' && passes(name)) found[name] = value;
  }
  return found;
}

export const providerAdapters: Readonly<Record<Provider, ProviderAdapter>> = { anthropic, openai, gemini };

/** The body of a gateway error in the provider's format. */
export function providerErrorBody(provider: Provider, status: number, error: CellaError): Record<string, unknown> {
  return providerAdapters[provider].errorBody({ status, code: error.code, message: textOf(error) });
}

/** An error midway through a stream, as an event of that stream. */
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
      // The agents' libraries retry on their own if a status looks temporary.
      'x-should-retry': String(error.retryable && error.details.permanent !== true),
      ...(retryAfterMs > 0 ? { 'retry-after': String(Math.ceil(retryAfterMs / 1000)) } : {}),
      'content-length': String(Buffer.byteLength(text)),
    })
    .end(text);
}

const textOf = ({ message, advice }: CellaError): string => `${message} ${advice}`;

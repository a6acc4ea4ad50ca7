/** What of each provider's API the gateway lets through: methods, paths, queries and headers. Everything else is refused. */

import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Shape } from './field-check.ts';
import { holdsKey } from './key-leak-scanner.ts';
import * as anthropic from './providers/anthropic.ts';
import { anthropicBetas } from './providers/anthropic.ts';
import * as gemini from './providers/gemini.ts';
import * as openai from './providers/openai.ts';

/** How an answer tells what it has used. `free`: it uses nothing that is counted. */
export type ApiFormat = 'messages' | 'responses' | 'chat' | 'gemini' | 'free';

/** The fields that an API has. */
export interface ApiFields {
  /** Undefined where a request has no body. */
  readonly request?: Shape;
  readonly answer: Shape;
  /** Of one event of a stream. */
  readonly event?: Shape;
}

export interface ProviderRoute {
  readonly provider: Provider;
  readonly fields: ApiFields;
  readonly format: ApiFormat;
  /** As the provider knows it, with what was let through of the query. */
  readonly target: string;
  /** Where the path names it. */
  readonly model: string | undefined;
  readonly takesBody: boolean;
  /** Whether it is answered as it is made, where the path says that. */
  readonly streams: boolean | undefined;
}

interface RouteRule {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly wire: ApiFormat;
  readonly fields: ApiFields;
}

const MODEL = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}';
const rule = (method: RouteRule['method'], path: string, wire: ApiFormat, fields: ApiFields): RouteRule => ({
  method,
  path: new RegExp(`^${path}$`),
  wire,
  fields,
});

/** Models: all, and one by its name. */
const listed = (base: string, all: Shape, one: Shape): RouteRule[] => [
  rule('GET', base, 'free', { answer: all }),
  rule('GET', `${base}/(?<model>${MODEL})`, 'free', { answer: one }),
];
const GEMINI = '/v1(?:beta|alpha)?/models';
const rules: Readonly<Record<Provider, readonly RouteRule[]>> = {
  anthropic: [
    rule('POST', '/v1/messages', 'messages', {
      request: anthropic.messagesRequest,
      answer: anthropic.messagesAnswer,
      event: anthropic.messagesEvent,
    }),
    rule('POST', '/v1/messages/count_tokens', 'free', {
      request: anthropic.countTokensRequest,
      answer: anthropic.countTokensAnswer,
    }),
    ...listed('/v1/models', anthropic.anthropicModels, anthropic.anthropicModel),
  ],
  openai: [
    rule('POST', '/v1/responses', 'responses', {
      request: openai.responsesRequest,
      answer: openai.responsesAnswer,
      event: openai.responsesEvent,
    }),
    rule('POST', '/v1/chat/completions', 'chat', {
      request: openai.chatRequest,
      answer: openai.chatAnswer,
      event: openai.chatAnswer,
    }),
    ...listed('/v1/models', openai.openaiModels, openai.openaiModel),
  ],
  gemini: [
    rule('POST', `${GEMINI}/(?<model>${MODEL}):(?<action>generateContent|streamGenerateContent)`, 'gemini', {
      request: gemini.geminiRequest,
      answer: gemini.geminiAnswer,
      event: gemini.geminiAnswer,
    }),
    rule('POST', `${GEMINI}/(?<model>${MODEL}):countTokens`, 'free', {
      request: gemini.geminiCountRequest,
      answer: gemini.geminiCount,
    }),
    ...listed(GEMINI, gemini.geminiModels, gemini.geminiModel),
  ],
};

/** Of these, and never of what might be a key. */
const QUERY = new Set(['beta', 'alt', 'limit', 'after_id', 'before_id', 'pageSize', 'pageToken']);
const VALUE = /^[\w.-]{0,200}$/;
/** Of Gemini's forms, those that can be read here. */
const FORMS = new Set(['json', 'sse']);

/** Whose path it is, by how it begins. */
export function providerOf(url: string): Provider | undefined {
  if (url.startsWith('/anthropic/')) return 'anthropic';
  if (url.startsWith('/openai/')) return 'openai';
  return url.startsWith('/gemini/') ? 'gemini' : undefined;
}

/** Of a body with which a provider refuses. */
export const errorFields: Readonly<Record<Provider, Shape>> = {
  anthropic: anthropic.anthropicError,
  openai: openai.openaiError,
  gemini: gemini.geminiError,
};

/** Undefined where nothing leads there. */
export function findProviderRoute(provider: Provider, method: string, url: string): ProviderRoute | undefined {
  const [path = '', ...query] = url.slice(provider.length + 1).split('?');
  for (const { method: wanted, path: shape, wire, fields } of rules[provider]) {
    const found = wanted === method ? shape.exec(path) : null;
    if (!found) continue;
    const target = path + queryOf(query.join('?'));
    const { model, action } = found.groups ?? {};
    const streams = action === undefined ? undefined : action === 'streamGenerateContent';
    return { provider, format: wire, fields, target, model, takesBody: method === 'POST', streams };
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
  'content-type',
  'openai-beta',
  'user-agent',
  'x-app',
  'x-goog-api-client',
]);
const ASKED_BEGIN = /^x-stainless-[a-z-]{1,40}$/;

const ANSWERED = new Set(['content-type', 'openai-processing-ms', 'request-id', 'retry-after', 'retry-after-ms']);
const ANSWERED_TOO = new Set(['x-request-id', 'x-should-retry']);
const ANSWERED_BEGIN = /^(anthropic-ratelimit-|x-ratelimit-)[a-z-]{1,60}$/;

/** Without compression: what was used is read from the answer as it passes. */
export function requestHeaders(
  given: IncomingHttpHeaders,
  { provider, key, bodyBytes }: { provider: Provider; key: string; bodyBytes: number | undefined },
): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ASKED.has(name) || ASKED_BEGIN.test(name));
  const length = bodyBytes === undefined ? {} : { 'content-length': bodyBytes };
  return { ...passed, 'accept-encoding': 'identity', ...length, ...keyHeader(provider, key) };
}

/** One that holds the key, whatever put it there, does not pass. */
export function responseHeaders(given: IncomingHttpHeaders, key: string): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ANSWERED.has(name) || ANSWERED_TOO.has(name) || ANSWERED_BEGIN.test(name));
  return Object.fromEntries(Object.entries(passed).filter(([, value]) => !holdsKey(value, key)));
}

/** A beta changes what an API has; one that nobody knows here is refused as a field would be. */
export function checkBetas(given: IncomingHttpHeaders, added: ReadonlySet<string>): void {
  for (const beta of String(given['anthropic-beta'] ?? '').split(',')) {
    const name = beta.trim();
    if (name === '' || added.has(name) || anthropicBetas.test(name.replace(/-\d{4}-?\d{2}-?\d{2}$/, ''))) continue;
    const shown = /^[\w.-]{1,100}$/.test(name) ? name : '…';
    throw new CellaError(
      'INVALID_REQUEST',
      `The request asks for the beta "${shown}", which the gateway does not know.`,
      {
        details: { field: 'anthropic-beta', lasting: true },
        advice:
          'Leave it out. If the provider has added it, the operator can allow it with `--provider-field anthropic=NAME`; see docs/gateway.md.',
      },
    );
  }
}

function chosen(given: IncomingHttpHeaders, passes: (name: string) => boolean): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(given)) {
    if (typeof value === 'string' && passes(name)) found[name] = value;
  }
  return found;
}

function keyHeader(provider: Provider, key: string): Record<string, string> {
  switch (provider) {
    case 'anthropic':
      return { 'x-api-key': key };
    case 'openai':
      return { authorization: `Bearer ${key}` };
    case 'gemini':
      return { 'x-goog-api-key': key };
  }
}

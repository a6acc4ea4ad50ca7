/** What of each provider's API the gateway lets through: methods, paths, queries and headers. Everything else is refused. */

import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { type Provider, providers } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { holdsKey } from './key-leak-scanner.ts';
import { providerAdapters } from './providers/all-providers.ts';
import { anthropicBetas } from './providers/anthropic.ts';
import type { ApiFields, ApiFormat } from './providers/provider.ts';

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

/** The query parameters that are passed on. Never one that might hold a key. */
const QUERY = new Set(['beta', 'alt', 'limit', 'after_id', 'before_id', 'pageSize', 'pageToken']);
const VALUE = /^[\w.-]{0,200}$/;
/** The values of Gemini's `alt` that the gateway can read. */
const FORMS = new Set(['json', 'sse']);

/** By the first part of the path. */
export function providerOf(url: string): Provider | undefined {
  return providers.find((name) => url.startsWith(`/${name}/`));
}

/** Undefined if the path is not let through. */
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
  return { ...passed, 'accept-encoding': 'identity', ...length, ...providerAdapters[provider].keyHeader(key) };
}

/** One that holds the key, whatever put it there, does not pass. */
export function responseHeaders(given: IncomingHttpHeaders, key: string): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ANSWERED.has(name) || ANSWERED_TOO.has(name) || ANSWERED_BEGIN.test(name));
  return Object.fromEntries(Object.entries(passed).filter(([, value]) => !holdsKey(value, key)));
}

/** A beta changes the fields of an API, so an unknown one is refused like an unknown field. */
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

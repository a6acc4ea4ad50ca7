/** Which headers pass: those that are named here, and no others. Keys, cookies and what rules a connection never do. */

import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import type { Provider } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { holdsKey } from './key-watch.ts';
import { anthropicBetas } from './wires/anthropic-fields.ts';

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
export function askedHeaders(
  given: IncomingHttpHeaders,
  { provider, key, bodyBytes }: { provider: Provider; key: string; bodyBytes: number | undefined },
): OutgoingHttpHeaders {
  const passed = chosen(given, (name) => ASKED.has(name) || ASKED_BEGIN.test(name));
  const length = bodyBytes === undefined ? {} : { 'content-length': bodyBytes };
  return { ...passed, 'accept-encoding': 'identity', ...length, ...keyHeader(provider, key) };
}

/** One that holds the key, whatever put it there, does not pass. */
export function answeredHeaders(given: IncomingHttpHeaders, key: string): OutgoingHttpHeaders {
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

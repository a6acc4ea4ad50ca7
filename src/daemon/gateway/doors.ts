/**
 * What agents may ask of a provider. A request goes on only where its method and path are written here, character by
 * character: nothing is decoded or normalised, so that no other spelling of a path leads anywhere.
 */

import type { Provider } from '../../protocol/providers.ts';

/** How an answer tells what it has used. `free`: it uses nothing that is counted. */
export type Wire = 'messages' | 'responses' | 'chat' | 'gemini' | 'free';

export interface Door {
  readonly provider: Provider;
  readonly wire: Wire;
  /** As the provider knows it, with what was let through of the query. */
  readonly target: string;
  /** Where the path names it. */
  readonly model: string | undefined;
  readonly takesBody: boolean;
  /** Whether it is answered as it is made, where the path says that. */
  readonly streams: boolean | undefined;
}

interface Rule {
  readonly method: 'GET' | 'POST';
  readonly path: RegExp;
  readonly wire: Wire;
}

const MODEL = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}';
const rule = (method: Rule['method'], path: string, wire: Wire): Rule => ({
  method,
  path: new RegExp(`^${path}$`),
  wire,
});

const listed = [rule('GET', '/v1/models', 'free'), rule('GET', `/v1/models/(?<model>${MODEL})`, 'free')];
const rules: Readonly<Record<Provider, readonly Rule[]>> = {
  anthropic: [rule('POST', '/v1/messages', 'messages'), rule('POST', '/v1/messages/count_tokens', 'free'), ...listed],
  openai: [rule('POST', '/v1/responses', 'responses'), rule('POST', '/v1/chat/completions', 'chat'), ...listed],
  gemini: [
    rule(
      'POST',
      `/v1(?:beta|alpha)?/models/(?<model>${MODEL}):(?<action>generateContent|streamGenerateContent)`,
      'gemini',
    ),
    rule('POST', `/v1(?:beta|alpha)?/models/(?<model>${MODEL}):countTokens`, 'free'),
    rule('GET', '/v1(?:beta|alpha)?/models', 'free'),
    rule('GET', `/v1(?:beta|alpha)?/models/(?<model>${MODEL})`, 'free'),
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

/** Undefined where nothing leads there. */
export function doorOf(provider: Provider, method: string, url: string): Door | undefined {
  const [path = '', ...query] = url.slice(provider.length + 1).split('?');
  for (const { method: wanted, path: shape, wire } of rules[provider]) {
    const found = wanted === method ? shape.exec(path) : null;
    if (!found) continue;
    const target = path + queryOf(query.join('?'));
    const { model, action } = found.groups ?? {};
    const streams = action === undefined ? undefined : action === 'streamGenerateContent';
    return { provider, wire, target, model, takesBody: method === 'POST', streams };
  }
  return undefined;
}

function queryOf(text: string): string {
  const kept = [...new URLSearchParams(text)].filter(([name, value]) => isKept(name, value));
  return kept.length === 0 ? '' : `?${new URLSearchParams(kept)}`;
}

const isKept = (name: string, value: string): boolean =>
  QUERY.has(name) && VALUE.test(value) && (name !== 'alt' || FORMS.has(value));

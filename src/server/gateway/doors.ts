/**
 * What agents may ask of a provider. A request goes on only where its method and path are written here, character by
 * character: nothing is decoded or normalised, so that no other spelling of a path leads anywhere.
 */

import type { Provider } from '../../protocol/enums.ts';
import type { Shape } from './fields.ts';
import * as anthropic from './wires/anthropic-fields.ts';
import * as gemini from './wires/gemini-fields.ts';
import * as openai from './wires/openai-fields.ts';

/** How an answer tells what it has used. `free`: it uses nothing that is counted. */
export type Wire = 'messages' | 'responses' | 'chat' | 'gemini' | 'free';

/** The fields that an API has. */
export interface ApiFields {
  /** Undefined where a request has no body. */
  readonly request?: Shape;
  readonly answer: Shape;
  /** Of one event of a stream. */
  readonly event?: Shape;
}

export interface Door {
  readonly provider: Provider;
  readonly fields: ApiFields;
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
  readonly fields: ApiFields;
}

const MODEL = '[A-Za-z0-9][A-Za-z0-9._-]{0,127}';
const rule = (method: Rule['method'], path: string, wire: Wire, fields: ApiFields): Rule => ({
  method,
  path: new RegExp(`^${path}$`),
  wire,
  fields,
});

/** Models: all, and one by its name. */
const listed = (base: string, all: Shape, one: Shape): Rule[] => [
  rule('GET', base, 'free', { answer: all }),
  rule('GET', `${base}/(?<model>${MODEL})`, 'free', { answer: one }),
];
const GEMINI = '/v1(?:beta|alpha)?/models';
const rules: Readonly<Record<Provider, readonly Rule[]>> = {
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
export function doorOf(provider: Provider, method: string, url: string): Door | undefined {
  const [path = '', ...query] = url.slice(provider.length + 1).split('?');
  for (const { method: wanted, path: shape, wire, fields } of rules[provider]) {
    const found = wanted === method ? shape.exec(path) : null;
    if (!found) continue;
    const target = path + queryOf(query.join('?'));
    const { model, action } = found.groups ?? {};
    const streams = action === undefined ? undefined : action === 'streamGenerateContent';
    return { provider, wire, fields, target, model, takesBody: method === 'POST', streams };
  }
  return undefined;
}

function queryOf(text: string): string {
  const kept = [...new URLSearchParams(text)].filter(([name, value]) => isKept(name, value));
  return kept.length === 0 ? '' : `?${new URLSearchParams(kept)}`;
}

const isKept = (name: string, value: string): boolean =>
  QUERY.has(name) && VALUE.test(value) && (name !== 'alt' || FORMS.has(value));

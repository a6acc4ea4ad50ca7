/** What the gateway reads: requests of agents, and answers of providers. */

import type { IncomingMessage } from 'node:http';
import type { Shape } from '../../../src/server/gateway/field-check.ts';
import type { AnswerReader } from '../../../src/server/gateway/response-filter.ts';
import { messagesIn } from '../../support/agents/streamed-messages.ts';
import type { Target } from '../engine.ts';
import { headAndBody, requestWithBody } from './requests.ts';

const KEY = 'sk-ant-api03-CANARY0123456789';
const ADDED: ReadonlySet<string> = new Set(['added_field']);
const FIELD_CHECKER = [
  'begin',
  'key',
  'text',
  'close',
  '#lookUp',
  '#checkType',
  '#note',
  '#noteModel',
  '#path',
  'textOf',
  'described',
];
/** The dearer checks are for one input of so many. */
const SELDOM = 8;

/** A request as it came in: it is refused by a typed error, or its fields are known and its body is as it was. */
export async function requests(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { readModelRequest: readAsked } = await import('../../../src/server/gateway/model-request.ts');
  const { findProviderRoute, providerOf } = await import('../../../src/server/gateway/provider-api.ts');
  const { requestHeaders: askedHeaders } = await import('../../../src/server/gateway/provider-api.ts');
  const { presentedToken } = await import('../../../src/server/gateway/gateway.ts');
  return {
    name: 'requests',
    parser: [
      { file: 'server/gateway/model-request.ts', functions: ['readModelRequest', 'parseBody', 'countable'] },
      {
        file: 'server/gateway/model-request.ts',
        functions: [
          'readMembers',
          'read',
          'named',
          'readBytes',
          'tooLarge',
          'refuse',
          'invalidBody',
          'noJson',
          'brokeOff',
        ],
      },
      { file: 'server/gateway/field-check.ts', functions: [...FIELD_CHECKER, 'refusedRequest'] },
      {
        file: 'server/gateway/provider-api.ts',
        functions: ['providerOf', 'findProviderRoute', 'queryOf', 'isKept'],
      },
      { file: 'server/gateway/gateway.ts', functions: ['presentedToken', 'inHeaders', 'inQuery'] },
      { file: 'server/gateway/model-request.ts', functions: ['outputLimitOf', 'requestedOutput', 'largest'] },
      { file: 'server/gateway/model-request.ts', functions: ['storedContextIn'] },
      {
        file: 'server/gateway/provider-api.ts',
        functions: ['requestHeaders', 'checkVersions', 'unknownVersion', 'chosen'],
      },
    ],
    words: [
      ...['"type":"text",', '"added_field":1,', '"stream":true,', '"model":"m",', '"max_tokens":1e99,', '"n":129,'],
      ...['\\u0074ype', '{', '}', '[', ']', ',', ':', '"', '\\', '\r\n', 'x-api-key: b\r\n', '?key=a', '/v1/models'],
      ...['anthropic-beta: x-1\r\n', 'Content-Encoding: gzip\r\n', '\xff', '\xe2\x80\xa8'],
    ],
    take: async (input) => {
      const { head, body } = headAndBody(input);
      const request = requestWithBody(head, body);
      const { url = '', method = '' } = request;
      const provider = providerOf(url);
      try {
        presentedToken(request);
        const route = provider && findProviderRoute(provider, method, url);
        if (!route) return;
        if (/[^\x21-\x7e]/.test(route.target)) throw new Error(`not a path: ${route.target}`);
        const rules = { added: ADDED, mayReach: input.length % 2 === 0, mostBytes: 8192, take: () => {} };
        const { body: sent, outputLimit: wanted } = await readAsked(request, route, rules);
        askedHeaders(request.headers, { provider: route.provider, key: KEY, bodyBytes: sent?.length });
        if (!(wanted.tokens >= 0 && wanted.answers >= 1)) throw new Error('an answer of no size');
        if (sent === undefined) return;
        const { stream_options: _, ...members } = JSON.parse(sent.toString());
        const { stream_options: __, ...given } = JSON.parse(body.toString());
        if (JSON.stringify(members) !== JSON.stringify(given)) throw new Error('a body that changes on its way');
        const unknown = unknownIn(given, route.fields.request, route.provider === 'gemini');
        if (unknown !== undefined && !ADDED.has(unknown)) throw new Error(`${unknown} has passed`);
      } catch (error) {
        if (!(error instanceof CellaError)) throw error;
      }
    },
  };
}

/** An answer, with the name of its API, its status and its type in the first line. */
export async function answers(): Promise<Target> {
  const { CellaError } = await import('../../../src/protocol/errors.ts');
  const { responseKind: kindOf } = await import('../../../src/server/gateway/upstream.ts');
  const { ErrorReader, EventReader, JsonReader } = await import('../../../src/server/gateway/response-filter.ts');
  const { findProviderRoute } = await import('../../../src/server/gateway/provider-api.ts');
  const { providerAdapters } = await import('../../../src/server/gateway/provider-api.ts');
  const { responseHeaders: answeredHeaders } = await import('../../../src/server/gateway/provider-api.ts');
  const { KeyLeakScanner } = await import('../../../src/server/gateway/key-leak-scanner.ts');
  const { ResponseUsageReader } = await import('../../../src/server/gateway/usage-reader.ts');
  const routes = {
    messages: findProviderRoute('anthropic', 'POST', '/anthropic/v1/messages'),
    responses: findProviderRoute('openai', 'POST', '/openai/v1/responses'),
    chat: findProviderRoute('openai', 'POST', '/openai/v1/chat/completions'),
    gemini: findProviderRoute('gemini', 'POST', '/gemini/v1beta/models/m:streamGenerateContent'),
  };

  const readerOf = (api: keyof typeof routes, answer: IncomingMessage) => {
    const { streamed, good } = kindOf(answer);
    const { provider = 'anthropic', fields } = routes[api] ?? {};
    const shape: Shape =
      (!good ? providerAdapters[provider].errorFields : streamed ? fields?.event : fields?.answer) ?? 'free';
    const rules = { shape, anyCase: providerAdapters[provider].anyCase };
    const usage = new ResponseUsageReader(api);
    const make = (): AnswerReader =>
      streamed && good
        ? new EventReader({ rules, key: KEY, usage, mustEnd: false })
        : good
          ? new JsonReader({ rules, key: KEY, usage })
          : new ErrorReader({ rules, key: KEY }, { provider, status: answer.statusCode ?? 0 });
    return { make, rules, usage, isStream: streamed && good };
  };

  /** Also in the middle of a character. What was passed before a failure was passed. */
  const read = (reader: AnswerReader, bytes: Buffer, size: number): { passed: string; failed: boolean } => {
    const passed: Buffer[] = [];
    const pass = (piece: Buffer) => void passed.push(piece);
    try {
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size), pass);
      reader.end(pass);
      return { passed: Buffer.concat(passed).toString('utf8'), failed: false };
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
      return { passed: Buffer.concat(passed).toString('utf8'), failed: true };
    }
  };

  return {
    name: 'answers',
    parser: [
      { file: 'server/gateway/upstream.ts', functions: ['responseKind', 'refused', 'isStream'] },
      { file: 'server/gateway/response-filter.ts' },
      { file: 'server/gateway/field-check.ts', functions: [...FIELD_CHECKER, 'refusedAnswer'] },
      { file: 'server/gateway/key-leak-scanner.ts' },
      { file: 'server/gateway/usage-reader.ts' },
      { file: 'server/gateway/provider-api.ts', functions: ['responseHeaders', 'chosen'] },
      { file: 'server/gateway/providers/openai.ts', functions: ['readChat', 'saidInDelta'] },
      { file: 'server/gateway/providers/gemini.ts', functions: ['readGemini', 'countsOf', 'saidInPart'] },
      { file: 'server/gateway/providers/anthropic.ts', functions: ['readMessages'] },
      { file: 'server/gateway/providers/openai.ts', functions: ['readResponses', 'saidInEvent'] },
    ],
    words: [
      ...['"', '\\', '{', '}', '[', ']', ',', ':', '\n', '\r', '\r\n', '\n\n', ' ', '\0', '\xe2\x80\xa8', '\xc2\x85'],
      ...['\xef\xbb\xbf', 'data: ', 'event: ', 'event: ping\n', ': hi\n', 'id: 1\n', '"type":"ping",', '"type":"odd",'],
      ...['"safeguard_results":[],', '"SMUGGLED":{"a":1},', '\\u0074ype', '\\ud800', '[DONE]', 'null', '1e999'],
      ...[KEY, KEY.slice(0, 14), KEY.slice(14), '\\u0073k-ant-api03-CANARY0123456789', '['.repeat(600)],
    ],
    take: (input) => {
      const { head, body } = headAndBody(input);
      const [name = '', status = '', type = ''] = head.split(' ');
      const api = Object.hasOwn(routes, name) ? (name as keyof typeof routes) : 'messages';
      const headers = { 'content-type': type, 'request-id': head.slice(0, 60) };
      const answer = {
        statusCode: Number.parseInt(status, 10),
        headers,
        destroy: () => {},
      } as unknown as IncomingMessage;
      answeredHeaders(answer.headers, KEY);
      let reading: ReturnType<typeof readerOf>;
      try {
        reading = readerOf(api, answer);
      } catch (error) {
        if (!(error instanceof CellaError)) throw error;
        return;
      }
      const { make, rules, usage, isStream } = reading;
      const outcome = read(make(), body, 1 + (input.length % 97));
      const { passed, failed } = outcome;
      const { counts } = usage.reading({ input: 1, output: 1 });
      if (!(counts.input >= 0 && counts.output >= 0)) throw new Error('a count that is none');
      if (passed.includes(KEY)) throw new Error('the key has passed');
      if (isStream && !EVENTS.test(passed)) throw new Error('an event that others read otherwise');
      if (!isStream && failed && passed !== '') throw new Error('a part of an answer has passed');
      if (input.length % SELDOM !== 0) return;
      for (const message of isStream ? messagesIn(passed) : passed === '' ? [] : [JSON.parse(passed)]) {
        const unknown = unknownIn(message, rules.shape, rules.anyCase);
        if (unknown !== undefined) throw new Error(`${unknown} has passed`);
      }
      // All of a piece that holds the key is held back.
      if (!new KeyLeakScanner(KEY).passes(body)) return;
      const again = read(readerOf(api, answer).make(), body, body.length > 1000 ? 7 : 1);
      if (again.passed !== passed || again.failed !== failed) throw new Error('it depends on how the answer was cut');
    },
  };
}

const EVENTS = /^(?:(?:event: [^\r\n]+\n)?data: [^\r\n\u0085\u2028\u2029]*\n\n|:\n\n)*$/;

/** The first field that the API does not have, by a walk over the parsed value. */
function unknownIn(value: unknown, shape: Shape | (() => Shape) | undefined, anyCase: boolean): string | undefined {
  const here = typeof shape === 'function' ? shape() : shape;
  if (here === 'free' || typeof value !== 'object' || value === null) return undefined;
  const inner = Array.isArray(value) ? value.map((each) => ['', each] as const) : Object.entries(value);
  for (const [name, each] of inner) {
    const spelled = anyCase ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : name;
    const next = Array.isArray(value) ? here : here?.fields.get(spelled);
    if (next === undefined) return name;
    const found = unknownIn(each, next, anyCase);
    if (found !== undefined) return found;
  }
  if (Array.isArray(value) || !here?.types || !('type' in value) || typeof value.type !== 'string') return undefined;
  return here.types.test(value.type) ? undefined : value.type;
}

/** The readers of answers among inputs that nobody wrote: mutations of real ones, in pieces of any size. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { type AnswerReader, ErrorReader, EventReader, JsonReader } from './answer-reader.ts';
import { doorOf, errorFields, type Wire } from './doors.ts';
import { FieldWatch, type Shape } from './fields.ts';
import { UsageReader } from './usage-reader.ts';

const KEY = 'sk-ant-api03-CANARY0123456789';
/** How many inputs of each: raised for a long run. */
const RUNS = Number(process.env.CELLA_FUZZ_RUNS ?? 400);

const apis = {
  messages: doorOf('anthropic', 'POST', '/anthropic/v1/messages'),
  responses: doorOf('openai', 'POST', '/openai/v1/responses'),
  chat: doorOf('openai', 'POST', '/openai/v1/chat/completions'),
  gemini: doorOf('gemini', 'POST', '/gemini/v1beta/models/m:streamGenerateContent'),
} as const;
type Api = keyof typeof apis;

/** As providers write them. */
const events: Readonly<Record<Api, readonly object[]>> = {
  messages: [
    {
      type: 'message_start',
      message: {
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [],
        model: 'm',
        usage: { input_tokens: 1, output_tokens: 1, cache_creation: { ephemeral_5m_input_tokens: 0 } },
      },
    },
    {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'tool_use', id: 't', name: 'Bash', input: { any: [{ thing: 1 }] } },
    },
    { type: 'ping' },
    {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'input_json_delta', partial_json: '{"command":"ls \\"a\\""}' },
    },
    { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Grüße\u2028 \ud83d\ude00' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: { output_tokens: 9 } },
    { type: 'message_stop' },
  ],
  responses: [
    {
      type: 'response.created',
      response: {
        id: 'r',
        object: 'response',
        model: 'm',
        output: [],
        tools: [{ type: 'function', name: 'a', parameters: { x: {} } }],
      },
    },
    {
      type: 'response.output_text.delta',
      item_id: 'i',
      output_index: 0,
      content_index: 0,
      delta: 'Hello',
      sequence_number: 3,
    },
    {
      type: 'response.completed',
      response: {
        object: 'response',
        usage: { input_tokens: 1, output_tokens: 2, output_tokens_details: { reasoning_tokens: 1 } },
      },
    },
  ],
  chat: [
    {
      id: 'c',
      object: 'chat.completion.chunk',
      model: 'm',
      choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }],
    },
    { id: 'c', object: 'chat.completion.chunk', choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } },
  ],
  gemini: [
    {
      candidates: [
        { content: { role: 'model', parts: [{ text: 'Hi' }, { functionCall: { name: 'a', args: { b: 1 } } }] } },
      ],
      usageMetadata: { promptTokenCount: 1 },
    },
    {
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 },
      modelVersion: 'm',
    },
  ],
};

const streamOf = (api: Api, ends: string): string =>
  events[api]
    .map((event) =>
      ('type' in event ? `event: ${event.type}${ends}` : '').concat(`data: ${JSON.stringify(event)}${ends}${ends}`),
    )
    .join('') + (api === 'chat' ? `data: [DONE]${ends}${ends}` : '');

const rulesOf = (shape: Shape | undefined, api: Api) => ({ shape: shape ?? 'free', anyCase: api === 'gemini' });

function eventReader(api: Api): AnswerReader {
  return new EventReader({
    rules: rulesOf(apis[api]?.fields.event, api),
    key: KEY,
    usage: new UsageReader(api as Wire),
  });
}

/** Also in the middle of a character. */
function read(reader: AnswerReader, bytes: Buffer, sizes: readonly number[]): { passed: string; failed: boolean } {
  const passed: Buffer[] = [];
  // What is passed may be overwritten by nobody afterwards.
  const pass = (piece: Buffer) => void passed.push(piece);
  let failed = false;
  try {
    for (let at = 0, turn = 0; at < bytes.length; turn++) {
      const size = sizes[turn % sizes.length] ?? 1;
      reader.push(bytes.subarray(at, at + size), pass);
      at += size;
    }
    reader.end(pass);
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    failed = true;
  }
  return { passed: Buffer.concat(passed).toString('utf8'), failed };
}

/** By other means than those under test: what an agent would make of it. */
function messagesIn(stream: string): unknown[] {
  const datas = stream.split(/\r\n\r\n|\r\r|\n\n/).map((event) =>
    event
      .split(/\r\n|[\r\n\u0085\u2028\u2029]/)
      .flatMap((line) => (line.startsWith('data:') ? [line.slice(5).replace(/^ /, '')] : []))
      .join('\n'),
  );
  return datas.filter((data) => data !== '' && data.trim() !== '[DONE]').map((data) => JSON.parse(data));
}

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
  if (
    !Array.isArray(value) &&
    here?.types &&
    'type' in value &&
    typeof value.type === 'string' &&
    !here.types.test(value.type)
  )
    return value.type;
  return undefined;
}

const api = fc.constantFrom(...(Object.keys(apis) as Api[]));
const sizes = fc.array(fc.integer({ min: 1, max: 90 }), { minLength: 1, maxLength: 5 });
const junk = fc.oneof(
  fc.constantFrom(
    '"',
    '\\',
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    ' ',
    '\0',
    '\u2028',
    '\u0085',
    '\uFEFF',
  ),
  fc.constantFrom(
    'data: ',
    'event: ',
    'event: ping\n',
    ': hi\n',
    'id: 1\n',
    '"type":"ping",',
    '"safeguard_results":[],',
    '"SMUGGLED":{"a":1},',
  ),
  fc.constantFrom(
    '\\u0074ype',
    '\\ud800',
    '"type":"odd",',
    '[DONE]',
    'null',
    '1e999',
    KEY,
    KEY.slice(0, 14),
    `${'['.repeat(600)}`,
  ),
  fc.string({ unit: 'binary', maxLength: 8 }),
);
/** A real one with some pieces of it taken out, put in, or doubled. */
const mutated = (text: string) =>
  fc.array(fc.tuple(fc.nat(), fc.nat(12), fc.option(junk, { nil: '' })), { maxLength: 4 }).map((edits) =>
    edits.reduce((now, [at, gone, put]) => {
      const from = at % (now.length + 1);
      return now.slice(0, from) + put + now.slice(from + gone);
    }, text),
  );
const stream = fc
  .tuple(api, fc.constantFrom('\n', '\r\n', '\r'))
  .chain(([name, ends]) => fc.tuple(fc.constant(name), mutated(streamOf(name, ends))));

describe('a stream', () => {
  it.each(Object.keys(apis) as Api[])('of %s as the provider writes it passes, whatever ends its lines', (name) => {
    for (const ends of ['\n', '\r\n', '\r']) {
      const { passed, failed } = read(eventReader(name), Buffer.from(streamOf(name, ends)), [7]);
      expect(failed).toBe(false);
      expect(messagesIn(passed)).toEqual(events[name]);
    }
  });

  it('that is mutated passes only what its API has, as events that every reader reads alike, and never the key', () => {
    fc.assert(
      fc.property(stream, sizes, ([name, text], pieces) => {
        const bytes = Buffer.from(text);
        const { passed } = read(eventReader(name), bytes, pieces);
        expect(passed).not.toContain(KEY);
        expect(passed).toMatch(/^(?:(?:event: [^\r\n]+\n)?data: [^\r\n\u0085\u2028\u2029]*\n\n|:\n\n)*$/);
        for (const message of messagesIn(passed)) {
          expect(unknownIn(message, apis[name]?.fields.event, name === 'gemini'), passed).toBeUndefined();
        }
      }),
      { numRuns: RUNS },
    );
  });

  it('that is mutated comes to the same in whatever pieces it arrives', () => {
    fc.assert(
      fc.property(stream, sizes, ([name, text], pieces) => {
        const bytes = Buffer.from(text);
        if (text.includes(KEY)) return;
        expect(read(eventReader(name), bytes, pieces)).toEqual(read(eventReader(name), bytes, [1]));
      }),
      { numRuns: RUNS },
    );
  });
});

describe('an answer that is no stream', () => {
  const whole = {
    type: 'message',
    role: 'assistant',
    content: [{ type: 'tool_use', input: { a: 1 } }],
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  const shape = apis.messages?.fields.answer ?? 'free';

  it('that is mutated passes as it is where it is JSON of its API, and else not at all', () => {
    fc.assert(
      fc.property(mutated(JSON.stringify(whole)), sizes, (text, pieces) => {
        const options = { rules: { shape }, key: KEY, usage: new UsageReader('messages') };
        const { passed, failed } = read(new JsonReader(options), Buffer.from(text), pieces);
        expect(passed).toBe(failed ? '' : text);
        if (!failed) expect(unknownIn(JSON.parse(passed), shape, false)).toBeUndefined();
      }),
      { numRuns: RUNS },
    );
  });

  it('that is a mutated error is JSON with the fields of an error', () => {
    const error = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' }, request_id: 'r' };
    fc.assert(
      fc.property(mutated(JSON.stringify(error)), sizes, (text, pieces) => {
        const options = { rules: { shape: errorFields.anthropic }, key: KEY };
        const reader = new ErrorReader(options, { provider: 'anthropic', status: 529 });
        const { passed, failed } = read(reader, Buffer.from(text), pieces);
        if (!failed) expect(unknownIn(JSON.parse(passed), errorFields.anthropic, false)).toBeUndefined();
      }),
      { numRuns: RUNS },
    );
  });
});

it('names of fields that are not shown stay out of what is told', () => {
  const watch = new FieldWatch({ shape: apis.messages?.fields.answer ?? 'free' });
  watch.begin('object');
  expect(watch.key('"<script>"')).toBe(false);
  expect(watch.finding).toEqual({ kind: 'unknown field', at: '…' });
});

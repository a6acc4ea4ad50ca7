/** The readers of answers, with answers as providers write them. Mutations of these are in test/fuzz/targets/gateway.ts. */

import { describe, expect, it } from 'vitest';
import { messagesIn } from '../../../test/support/agents/streamed-messages.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FieldChecker, type Shape } from './field-check.ts';
import { findProviderRoute } from './provider-api.ts';
import type { ApiFormat } from './providers/provider.ts';
import { type AnswerReader, EventReader } from './response-filter.ts';
import { ResponseUsageReader } from './usage-reader.ts';

const KEY = 'sk-ant-api03-CANARY0123456789';

const apis = {
  messages: findProviderRoute('anthropic', 'POST', '/anthropic/v1/messages'),
  responses: findProviderRoute('openai', 'POST', '/openai/v1/responses'),
  chat: findProviderRoute('openai', 'POST', '/openai/v1/chat/completions'),
  gemini: findProviderRoute('gemini', 'POST', '/gemini/v1beta/models/m:streamGenerateContent'),
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
    usage: new ResponseUsageReader(api as ApiFormat),
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

describe('a stream', () => {
  it.each(Object.keys(apis) as Api[])('of %s passes as the provider writes it, with any line ends', (name) => {
    for (const ends of ['\n', '\r\n', '\r']) {
      const { passed, failed } = read(eventReader(name), Buffer.from(streamOf(name, ends)), [7]);
      expect(failed).toBe(false);
      expect(messagesIn(passed)).toEqual(events[name]);
    }
  });
});

describe('a key in pieces', () => {
  const half = KEY.length / 2;
  const [first, rest] = [KEY.slice(0, half), KEY.slice(half)];
  const [text, other] = ['text_delta', 'thinking_delta'];
  const delta = (index: number, said: object) => ({ type: 'content_block_delta', index, delta: said });
  const start = (index: number, said: object) => ({ type: 'content_block_start', index, content_block: said });
  const chunk = (index: number, said: object) => ({
    object: 'chat.completion.chunk',
    choices: [{ index, delta: said }],
  });
  const called = (index: number, said: string) => ({ tool_calls: [{ index, function: { arguments: said } }] });
  const part = (...parts: object[]) => ({ candidates: [{ content: { parts } }] });
  const added = (item: object) => ({ type: 'response.output_item.added', output_index: 0, item });
  const output = (at: number, said: unknown, of = 'output_text') => ({
    ...{ type: `response.${of}.delta`, output_index: at, content_index: 0 },
    delta: said,
  });

  it.each<[string, Api, readonly object[]]>([
    [
      'at the start of a block, and in its delta',
      'messages',
      [start(0, { type: 'text', text: first }), delta(0, { type: text, text: rest })],
    ],
    [
      'at the start of a message, and in a delta',
      'messages',
      [
        { type: 'message_start', message: { content: [{ type: 'text', text: first }] } },
        delta(0, { type: text, text: rest }),
      ],
    ],
    [
      'of a summary of the conversation',
      'messages',
      [first, rest].map((content) => delta(0, { type: 'compaction_delta', content })),
    ],
    [
      'beside another text in each event',
      'messages',
      [...KEY].map((one) => delta(0, { type: text, text: one, thinking: 'x' })),
    ],
    [
      'in a block, with another block in between',
      'messages',
      [first, rest].flatMap((one) => [delta(0, { type: text, text: one }), delta(1, { type: other, thinking: 'x' })]),
    ],
    ['of a refusal', 'chat', [first, rest].map((refusal) => chunk(0, { refusal }))],
    ['of a thought', 'chat', [first, rest].map((reasoning) => chunk(0, { reasoning }))],
    [
      'beside another text in each chunk',
      'chat',
      [...KEY].map((content) => chunk(0, { content, reasoning_content: 'x' })),
    ],
    [
      'in one of two answers',
      'chat',
      [...KEY].flatMap((content) => [chunk(0, { content }), chunk(1, { content: 'x' })]),
    ],
    ['in one of two calls', 'chat', [...KEY].flatMap((one) => [chunk(0, called(0, one)), chunk(0, called(1, 'x'))])],
    [
      'at the start of an item, and in its delta',
      'responses',
      [added({ type: 'function_call', arguments: first }), output(0, rest, 'function_call_arguments')],
    ],
    [
      'at the start of a part, and in its delta',
      'responses',
      [
        { type: 'response.content_part.added', output_index: 0, part: { type: 'output_text', text: first } },
        output(0, rest),
      ],
    ],
    [
      'of the output of a command',
      'responses',
      [first, rest].map((stdout) => output(0, { stdout, stderr: 'x' }, 'shell_call_output_content')),
    ],
    ['in one of two items', 'responses', [...KEY].flatMap((one) => [output(0, one), output(1, 'x')])],
    [
      'beside a thought in each chunk',
      'gemini',
      [...KEY].map((one) => part({ text: one }, { text: 'x', thought: true })),
    ],
    [
      'of the arguments of a call',
      'gemini',
      [first, rest].map((stringValue) =>
        part({ functionCall: { name: 'a', partialArgs: [{ jsonPath: '$.a', stringValue }] } }),
      ),
    ],
  ])('%s, of %s, is held back', (_name, api, said) => {
    const sse = said.map((one) => `data: ${JSON.stringify(one)}\n\n`).join('');
    const { passed, failed } = read(eventReader(api), Buffer.from(sse), [sse.length]);
    expect(failed).toBe(true);
    const texts = [...passed.matchAll(/"([^"]*)"/g)].map(([, text]) => text);
    expect(texts).not.toContain(first);
    // Of what came one by one, no more than what many keys begin with.
    expect(messagesIn(passed).length).toBeLessThan(2 * 8);
  });
});

it('names of fields that are not shown are not reported', () => {
  const checker = new FieldChecker({ shape: apis.messages?.fields.answer ?? 'free' });
  checker.begin('object');
  expect(checker.key('"<script>"')).toBe(false);
  expect(checker.finding).toEqual({ kind: 'unknown field', at: '…' });
});

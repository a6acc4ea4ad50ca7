/** The readers of answers, with answers as providers write them. Mutations of these are in test/fuzz/targets/gateway.ts. */

import { describe, expect, it } from 'vitest';
import { messagesIn } from '../../../test/support/agents/streamed-messages.ts';
import { CellaError } from '../../protocol/errors.ts';
import { FieldWatch, type Shape } from './field-check.ts';
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
  it.each(Object.keys(apis) as Api[])('of %s as the provider writes it passes, whatever ends its lines', (name) => {
    for (const ends of ['\n', '\r\n', '\r']) {
      const { passed, failed } = read(eventReader(name), Buffer.from(streamOf(name, ends)), [7]);
      expect(failed).toBe(false);
      expect(messagesIn(passed)).toEqual(events[name]);
    }
  });
});

it('names of fields that are not shown stay out of what is told', () => {
  const watch = new FieldWatch({ shape: apis.messages?.fields.answer ?? 'free' });
  watch.begin('object');
  expect(watch.key('"<script>"')).toBe(false);
  expect(watch.finding).toEqual({ kind: 'unknown field', at: '…' });
});

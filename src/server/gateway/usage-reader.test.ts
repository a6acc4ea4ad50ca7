import { describe, expect, it } from 'vitest';
import type { ApiFormat } from './providers/provider.ts';
import { type AnswerReader, EventReader, JsonReader } from './response-filter.ts';
import { ResponseUsageReader } from './usage-reader.ts';

const sse = (...events: unknown[]): string =>
  events.map((each) => `data: ${typeof each === 'string' ? each : JSON.stringify(each)}\n\n`).join('');

/** A reader of usage, by way of that of answers. */
function readerOf(format: ApiFormat, streamed: boolean) {
  const usage = new ResponseUsageReader(format);
  const options = { rules: { shape: 'free' as const }, key: 'sk-nobody-tells-this', usage };
  const answers: AnswerReader = streamed ? new EventReader(options) : new JsonReader(options);
  const push = (bytes: Buffer) => answers.push(bytes, () => {});
  const end = (): boolean => {
    answers.end(() => {});
    return usage.end();
  };
  return { push, end, usage, reading: usage.reading.bind(usage) };
}

/** What is counted if nothing is reported. */
const UNREPORTED = { input: 333, output: 4444 };

const streams: readonly [ApiFormat, string][] = [
  [
    'messages',
    sse(
      {
        type: 'message_start',
        message: {
          model: 'm',
          usage: { input_tokens: 10, output_tokens: 1, cache_read_input_tokens: 4, cache_creation_input_tokens: 6 },
        },
      },
      { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Grüße' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 20, input_tokens: null } },
      { type: 'message_stop' },
    ),
  ],
  [
    'responses',
    sse(
      { type: 'response.created', response: { model: 'm', usage: null } },
      { type: 'response.output_text.delta', delta: 'Grüße' },
      {
        type: 'response.completed',
        response: {
          model: 'm',
          usage: { input_tokens: 14, input_tokens_details: { cached_tokens: 4 }, output_tokens: 20 },
        },
      },
    ),
  ],
  [
    'chat',
    sse(
      { object: 'chat.completion.chunk', model: 'm', choices: [{ delta: { content: 'Grüße' } }], usage: null },
      {
        object: 'chat.completion.chunk',
        model: 'm',
        choices: [],
        usage: { prompt_tokens: 14, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 4 } },
      },
      '[DONE]',
    ),
  ],
  [
    'gemini',
    sse(
      {
        modelVersion: 'm',
        candidates: [{ content: { parts: [{ text: 'Grüße' }] } }],
        usageMetadata: { promptTokenCount: 14 },
      },
      {
        candidates: [{ finishReason: 'STOP' }],
        usageMetadata: {
          promptTokenCount: 14,
          cachedContentTokenCount: 4,
          candidatesTokenCount: 15,
          thoughtsTokenCount: 5,
        },
      },
    ),
  ],
];

describe.each(streams)('a stream of %s', (format, text) => {
  const bytes = Buffer.from(text);

  it.each([1, 7, bytes.length])('is counted the same in pieces of %i bytes', (size) => {
    const reader = readerOf(format, true);
    for (let at = 0; at < bytes.length; at += size) reader.push(bytes.subarray(at, at + size));
    expect(reader.end()).toBe(true);
    const { counts, model, reported } = reader.reading(UNREPORTED);
    expect({ model, reported }).toEqual({ model: 'm', reported: { input: true, output: true } });
    expect(counts).toEqual({ input: 10, output: 20, cacheRead: 4, cacheWrite: format === 'messages' ? 6 : 0 });
  });

  it('that is cut off after any byte before its last event counts as its maximum', () => {
    for (let end = 0; end < text.trimEnd().lastIndexOf('data: '); end += 5) {
      const reader = readerOf(format, true);
      reader.push(bytes.subarray(0, end));
      const { counts, reported } = reader.reading(UNREPORTED);
      expect(counts.input).toBe(reported.input ? 10 : UNREPORTED.input);
      expect({ output: counts.output, reported: reported.output }).toEqual({
        output: UNREPORTED.output,
        reported: false,
      });
      expect(reader.usage.isOver).toBe(false);
    }
  });
});

describe('an answer without a stream', () => {
  it.each<[ApiFormat, unknown]>([
    ['messages', { type: 'message', model: 'm', usage: { input_tokens: 10, output_tokens: 20 } }],
    ['responses', { object: 'response', model: 'm', usage: { input_tokens: 10, output_tokens: 20 } }],
    ['chat', { object: 'chat.completion', model: 'm', usage: { prompt_tokens: 10, completion_tokens: 20 } }],
    ['gemini', { modelVersion: 'm', usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 20 } }],
    [
      'gemini',
      [{ candidates: [] }, { modelVersion: 'm', usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 20 } }],
    ],
  ])('of %s is counted', (format, answer) => {
    const reader = readerOf(format, false);
    reader.push(Buffer.from(JSON.stringify(answer, null, 2)));
    expect(reader.end()).toBe(true);
    const reported = { input: true, output: true };
    expect(reader.reading(UNREPORTED)).toMatchObject({ counts: { input: 10, output: 20 }, model: 'm', reported });
  });

  it.each<[string, unknown]>([
    ['negative numbers', { type: 'message', usage: { input_tokens: -5, output_tokens: -5 } }],
    ['numbers past all measure', { type: 'message', usage: { input_tokens: 1e30, output_tokens: 2e30 } }],
    ['words', { type: 'message', usage: { input_tokens: 'ten', output_tokens: {} } }],
    ['nothing', { type: 'message' }],
  ])('with %s in it is estimated', (_name, answer) => {
    const reader = readerOf('messages', false);
    reader.push(Buffer.from(JSON.stringify(answer)));
    reader.end();
    expect(reader.reading(UNREPORTED)).toMatchObject({ counts: UNREPORTED, reported: { input: false, output: false } });
  });
});

describe('a line without end', () => {
  it('is dropped over a limit, and later events are read', () => {
    const reader = readerOf('messages', true);
    const piece = Buffer.alloc(1024 * 1024, 0x78);
    for (let each = 0; each < 40; each += 1) reader.push(piece);
    reader.push(
      Buffer.from(`\n${sse({ type: 'message_delta', usage: { output_tokens: 3 } }, { type: 'message_stop' })}`),
    );
    expect(reader.end()).toBe(true);
    expect(reader.reading(UNREPORTED).counts.output).toBe(3);
  });
});

describe('the output', () => {
  const read = (format: ApiFormat, ...events: unknown[]) => {
    const reader = readerOf(format, true);
    reader.push(Buffer.from(sse(...events)));
    return reader;
  };

  it('is at least what was reported and seen so far', () => {
    const reader = read('messages', { type: 'message_delta', usage: { output_tokens: 9000 } });
    expect(reader.reading(UNREPORTED).counts.output).toBe(9000);
    const seen = read('messages', { type: 'content_block_delta', delta: { text: 'x'.repeat(30_000) } });
    expect(seen.reading(UNREPORTED).counts.output).toBe(10_000);
  });

  it('is not reported by a failed answer, and by none of Gemini’s before the connection has ended', () => {
    const began = { type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } };
    const failed = read('messages', began, { type: 'error' }, { type: 'message_stop' });
    expect(failed.end()).toBe(true);
    expect(failed.reading(UNREPORTED)).toMatchObject({
      counts: { output: UNREPORTED.output },
      reported: { output: false },
    });
    const gemini = read('gemini', { candidates: [{ finishReason: 'STOP' }], usageMetadata: { promptTokenCount: 5 } });
    expect(gemini.reading(UNREPORTED).counts.output).toBe(UNREPORTED.output);
    expect(gemini.end()).toBe(true);
    // A count of none is left out by it.
    expect(gemini.reading(UNREPORTED)).toMatchObject({ counts: { output: 0 }, reported: { output: true } });
  });
});

/** What a provider has taken from its cache, or put there: told in other words by each, counted and charged apart from the input. */

import { beforeAll, expect, it } from 'vitest';
import { at, Gateway, type Person, provide } from '../../support/servers/gateway.ts';

const claude = { input_tokens: 10, output_tokens: 20, cache_read_input_tokens: 4, cache_creation_input_tokens: 6 };
const responses = { input_tokens: 14, output_tokens: 20, input_tokens_details: { cached_tokens: 4 } };
const chat = { prompt_tokens: 14, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 4 } };
const gemini = {
  candidates: [],
  usageMetadata: { promptTokenCount: 14, candidatesTokenCount: 20, cachedContentTokenCount: 4 },
};

/** What the provider answers at each of its addresses, whole and as a stream. */
const answers: Readonly<Record<string, { readonly whole: object; readonly stream: readonly (object | string)[] }>> = {
  '/v1/messages': {
    whole: { type: 'message', usage: claude },
    stream: [
      { type: 'message_start', message: { usage: { ...claude, output_tokens: 1 } } },
      { type: 'message_delta', usage: { output_tokens: 20 } },
      { type: 'message_stop' },
    ],
  },
  '/v1/responses': {
    whole: { object: 'response', usage: responses },
    stream: [{ type: 'response.completed', response: { usage: responses } }],
  },
  '/v1/chat/completions': {
    whole: { object: 'chat.completion', usage: chat },
    stream: [{ object: 'chat.completion.chunk', choices: [], usage: chat }, '[DONE]'],
  },
  '/v1beta/models/m:generateContent': { whole: gemini, stream: [] },
  '/v1beta/models/m:streamGenerateContent': { whole: {}, stream: [gemini] },
};

let gateway: Gateway;
let ada: Person;
beforeAll(async () => {
  const { url } = await provide(async (request, response) => {
    const asked = Buffer.concat(await request.toArray()).toString();
    const { whole = {}, stream = [] } = answers[request.url?.split('?')[0] ?? ''] ?? {};
    const streams = asked.includes('"stream":true') || request.url?.includes('alt=sse');
    const text = stream
      .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
      .join('');
    response.writeHead(200, { 'content-type': streams ? 'text/event-stream' : 'application/json' });
    response.end(streams ? text : JSON.stringify(whole));
  });
  // Input, output, read from the cache, written to it: each has digits of its own in the sum.
  gateway = await Gateway.open({ settings: { providers: at(url), prices: ['*=1/10/1000/10000'] } });
  ada = await gateway.person('ada', 'sk-test-0123456789');
});

it.each([
  ['Anthropic Messages', '/anthropic/v1/messages', 6],
  ['OpenAI Responses', '/openai/v1/responses', 0],
  ['OpenAI chat completions', '/openai/v1/chat/completions', 0],
  ['Gemini', '/gemini/v1beta/models/m', 0],
])('%s: in one response and as a stream', async (name, path, cacheWrite) => {
  for (const stream of [false, true]) {
    const session = `ses_${name}_${stream}`.replaceAll(' ', '_');
    const headers = { authorization: `Bearer ${await ada.token({ session })}` };
    const action = name !== 'Gemini' ? '' : stream ? ':streamGenerateContent?alt=sse' : ':generateContent';
    const body = name === 'Gemini' ? { contents: [] } : { model: 'm', stream };
    const { status } = await gateway.ask(path + action, { headers, body });
    expect(status).toBe(200);
    const used = await gateway.models.usage.session(session);
    expect(used).toMatchObject({ calls: 1, input: 10, output: 20, cacheRead: 4, cacheWrite, estimated: 0 });
    expect(used.costUsd * 1e6).toBeCloseTo(10 + 200 + 4000 + cacheWrite * 10_000);
  }
});

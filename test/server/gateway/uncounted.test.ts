/** Calls whose counts never come, since somebody leaves before their end: what a provider may charge for them is held against budgets. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Asking, at, Gateway, type Person, provide } from '../../support/servers/gateway.ts';

const KEY = 'sk-test-CANARY-0123456789';
const MOST = 8000;
const WORKED_MS = 10_000;
/** Of one call that a provider has worked on for that long, and needs a moment to let go of. */
const MADE = 6000;
const chat = [{ role: 'user', content: 'hello' }];
const contents = [{ role: 'user', parts: [{ text: 'hello' }] }];
const started = { model: 'claude-sonnet-4-5', usage: { input_tokens: 50, output_tokens: 1 } };

interface Way {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  /** What comes before the model has thought. */
  readonly begins: unknown;
}

const claude = { model: 'claude-sonnet-4-5', max_tokens: MOST, messages: chat };
const ways: Readonly<Record<string, Way>> = {
  'Anthropic Messages': {
    path: '/anthropic/v1/messages',
    body: { ...claude, stream: true },
    begins: { type: 'message_start', message: started },
  },
  'OpenAI Responses': {
    path: '/openai/v1/responses',
    body: { model: 'gpt-5', max_output_tokens: MOST, stream: true, input: 'hello' },
    begins: { type: 'response.created', response: { model: 'gpt-5', usage: null } },
  },
  'OpenAI chat completions': {
    path: '/openai/v1/chat/completions',
    body: { model: 'gpt-5', max_completion_tokens: MOST, stream: true, messages: chat },
    begins: { object: 'chat.completion.chunk', model: 'gpt-5', choices: [{ delta: { content: '' } }], usage: null },
  },
  Gemini: {
    path: '/gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse',
    body: { contents, generationConfig: { maxOutputTokens: MOST } },
    begins: { candidates: [{ content: { parts: [{ text: '' }] } }], usageMetadata: { promptTokenCount: 50 } },
  },
};
const whole: Way = { path: '/anthropic/v1/messages', body: claude, begins: undefined };
const messages = ways['Anthropic Messages'] ?? whole;

type Answer = (response: ServerResponse, begins: unknown) => void;
const begin: Answer = (response, begins) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' }).write(`data: ${JSON.stringify(begins)}\n\n`);
};

/** A provider that works on each call for as long as the test says, by a clock of its own. */
async function thinking(settings: { readonly sessionTokens?: number; readonly sessionUsd?: number }) {
  const clock = { ms: 0 };
  const state = { answer: begin, begins: undefined as unknown, arrival: Promise.withResolvers<ServerResponse>() };
  const { url } = await provide(async (request: IncomingMessage, response) => {
    await request.toArray();
    state.answer(response, state.begins);
    state.arrival.resolve(response);
  });
  const own = await Gateway.open({ settings: { providers: at(url), ...settings }, clock: () => clock.ms });
  return { own, clock, state, person: await own.person('ada', KEY) };
}
type Thinking = Awaited<ReturnType<typeof thinking>>;

/** The status of a call that was refused; undefined of one that the agent has left when so much time was over. */
async function askAndLeave(at: Thinking, token: string, way: Way, ms: number): Promise<number | undefined> {
  const { own, clock, state } = at;
  state.begins = way.begins;
  state.arrival = Promise.withResolvers();
  const leave = new AbortController();
  const begun = Promise.withResolvers<void>();
  if (way.begins === undefined || state.answer !== begin) begun.resolve();
  const asking: Asking = { body: way.body, signal: leave.signal, onText: () => begun.resolve() };
  const reply = own.ask(way.path, { ...asking, headers: { authorization: `Bearer ${token}` } });
  const status = await Promise.race([
    reply.then((each) => each.status),
    Promise.all([state.arrival.promise, begun.promise]).then(() => undefined),
  ]);
  if (status !== undefined) return status;
  clock.ms += ms;
  leave.abort();
  await expect(reply).rejects.toThrow();
  return undefined;
}

async function callsUntilRefused(at: Thinking, token: string, way: Way, ms = WORKED_MS): Promise<number> {
  for (let calls = 0; calls < 20; calls += 1) {
    const status = await askAndLeave(at, token, way, ms);
    if (status !== undefined) {
      expect(status).toBe(429);
      return calls;
    }
  }
  throw new Error('nothing was ever refused');
}

const tokenOf = (person: Person) => person.token({ session: 'ses_1' });
const usedBy = ({ own }: Thinking) => own.models.usage.session('ses_1');

describe('an agent that disconnects', () => {
  it.each(Object.entries(ways))('of %s exceeds no budget with hidden reasoning', async (_name, way) => {
    const provider = await thinking({ sessionTokens: 3.5 * MADE });
    const calls = await callsUntilRefused(provider, await tokenOf(provider.person), way);
    expect(calls).toBe(4);
    const used = await usedBy(provider);
    expect(used).toMatchObject({ calls, output: calls * MADE, estimated: calls });
  });

  it('exceeds none in USD, and none by disconnecting before the answer', async () => {
    // Output is 15 USD a million.
    const provider = await thinking({ sessionUsd: 3.5 * MADE * 15e-6 });
    provider.state.answer = () => {};
    expect(await callsUntilRefused(provider, await tokenOf(provider.person), messages)).toBe(4);
    expect(await usedBy(provider)).toMatchObject({ calls: 4, output: 4 * MADE });
  });

  it('is charged the largest possible answer without a stream, because the provider completes it anyway', async () => {
    const provider = await thinking({ sessionTokens: 3.5 * MOST });
    provider.state.answer = () => {};
    expect(await callsUntilRefused(provider, await tokenOf(provider.person), whole, 1)).toBe(4);
    expect(await usedBy(provider)).toMatchObject({ calls: 4, output: 4 * MOST, estimated: 4 });
  });

  it('is charged for each of several answers', async () => {
    const provider = await thinking({});
    const { path, body, begins } = ways['OpenAI chat completions'] ?? whole;
    await askAndLeave(provider, await tokenOf(provider.person), { path, body: { ...body, n: 3 }, begins }, WORKED_MS);
    await expect.poll(() => usedBy(provider)).toMatchObject({ calls: 1, output: 3 * MADE });
  });

  it('is charged the highest input price, because nobody has reported that nothing was written to a cache', async () => {
    const provider = await thinking({});
    provider.state.answer = () => {};
    await askAndLeave(provider, await tokenOf(provider.person), messages, WORKED_MS);
    await expect.poll(async () => (await usedBy(provider)).calls).toBe(1);
    const { input, output, costUsd } = await usedBy(provider);
    expect(input).toBe(JSON.stringify(messages.body).length);
    expect(costUsd).toBeCloseTo((input * 3.75 + output * 15) / 1e6, 10);
  });
});

it('a person who stops a long answer early is charged for the elapsed time, not for the reservation', async () => {
  const provider = await thinking({});
  const way = { ...messages, body: { ...claude, stream: true, max_tokens: 32_000 } };
  await askAndLeave(provider, await tokenOf(provider.person), way, 3000);
  await expect.poll(() => usedBy(provider)).toMatchObject({ calls: 1, input: 50, output: 2500, estimated: 1 });
});

describe('an answer is charged', () => {
  const asked = async (provider: Thinking, way: Way = messages) => {
    provider.state.begins = way.begins;
    const headers = { authorization: `Bearer ${await tokenOf(provider.person)}` };
    return await provider.own.ask(way.path, { headers, body: way.body });
  };

  it.each<[string, Answer]>([
    ['its provider breaks off', (response, begins) => response.write(sse(begins), () => response.destroy())],
    ['its provider fails in the middle', (response, begins) => response.end(sse(begins) + sse({ type: 'error' }))],
  ])('by its time where %s', async (_name, answer) => {
    const provider = await thinking({});
    provider.state.answer = (response, begins) => {
      provider.clock.ms += WORKED_MS;
      answer(response.writeHead(200, { 'content-type': 'text/event-stream' }), begins);
    };
    await asked(provider).catch(() => {});
    const { output, estimated, input } = await usedBy(provider);
    expect({ input, estimated }).toEqual({ input: 50, estimated: 1 });
    expect(output).toBeGreaterThanOrEqual(5000);
  });

  it('if the provider closes the connection without a word, but not if there was no connection', async () => {
    const server = createServer((socket: Socket) => void socket.once('data', () => socket.resetAndDestroy()));
    const { promise, resolve } = Promise.withResolvers<void>();
    server.listen(0, '127.0.0.1', resolve);
    onTestFinished(() => void server.close());
    await promise;
    const address = server.address();
    const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
    const timeouts = { pausesMs: [] };
    for (const [where, calls] of [[url, 1] as const, ['http://127.0.0.1:1', 0] as const]) {
      const own = await Gateway.open({ settings: { providers: at(where) }, upstreamTimeouts: timeouts });
      const { status } = await own.messages(await tokenOf(await own.person('ada', KEY)));
      expect(status).toBe(502);
      expect(await own.models.usage.session('ses_1')).toMatchObject({ calls, output: 100 * calls, estimated: calls });
    }
  });

  it('if its format cannot be read here, and no other can be requested', async () => {
    const provider = await thinking({});
    const targets: string[] = [];
    provider.state.answer = (response) => {
      targets.push(response.req.url ?? '');
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end('\x00');
    };
    const path = '/gemini/v1beta/models/gemini-2.5-pro:generateContent?alt=proto';
    const way = { path, body: { contents, generation_config: { max_output_tokens: MOST, candidate_count: 2 } } };
    expect((await asked(provider, { ...way, begins: undefined })).status).toBe(502);
    expect(targets).toEqual(['/v1beta/models/gemini-2.5-pro:generateContent']);
    expect(await usedBy(provider)).toMatchObject({ calls: 1, output: 2 * MOST, estimated: 1 });
  });

  it('as reported if the agent disconnects after the last event', async () => {
    const provider = await thinking({});
    provider.state.answer = (response, begins) => {
      const told = sse({ type: 'message_delta', usage: { output_tokens: 20 } }) + sse({ type: 'message_stop' });
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(sse(begins) + told);
    };
    const leave = new AbortController();
    const token = await tokenOf(provider.person);
    provider.state.begins = messages.begins;
    const onText = (text: string) => text.includes('message_stop') && leave.abort();
    await expect(provider.own.messages(token, { stream: true, signal: leave.signal, onText })).rejects.toThrow();
    await expect.poll(() => usedBy(provider)).toMatchObject({ calls: 1, input: 50, output: 20, estimated: 0 });
  });

  it('if the server ends in the middle of it and the agent stays: before its storage closes', async () => {
    const provider = await thinking({});
    const reply = asked(provider).catch(() => {});
    await provider.state.arrival.promise;
    provider.clock.ms += WORKED_MS;
    await provider.own.models[Symbol.asyncDispose]();
    const counted = { calls: 1, output: MADE, estimated: 1 };
    expect(await usedBy(provider)).toMatchObject(counted);
    await reply;
    await provider.own.close();
    const later = await Gateway.open({ dataDir: provider.own.dataDir });
    expect(await later.models.usage.session('ses_1')).toMatchObject(counted);
  });
});

const sse = (event: unknown): string => `data: ${JSON.stringify(event)}\n\n`;

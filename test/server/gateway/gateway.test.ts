/** The model gateway: agents call it as their provider, in each provider's own words, and never see a key. */

import { LLMock } from '@copilotkit/aimock';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { at, Gateway, message, type Person, provide } from '../../support/servers/gateway.ts';

const KEY = 'sk-test-CANARY-0123456789';
const model = new LLMock({ port: 0, logLevel: 'silent' });
let gateway: Gateway;
let ada: Person;

beforeAll(async () => {
  model.on(
    { predicate: () => true },
    {
      content: 'Hello from the model.',
      usage: {
        ...{ input_tokens: 12, output_tokens: 7 },
        ...{ prompt_tokens: 12, completion_tokens: 7, total_tokens: 19 },
        ...{ promptTokenCount: 12, candidatesTokenCount: 7, totalTokenCount: 19 },
      },
    },
  );
  await model.start();
  gateway = await Gateway.open({ settings: { providers: at(model.url) } });
  ada = await gateway.person('ada', KEY);
});
afterAll(async () => {
  await model.stop();
});

const chat = [{ role: 'user', content: 'hello' }];
const contents = [{ role: 'user', parts: [{ text: 'hello' }] }];
const gemini = '/gemini/v1beta/models/gemini-2.5-pro';

describe.each([
  ['Anthropic Messages', '/anthropic/v1/messages', { model: 'claude-sonnet-4-5', max_tokens: 99, messages: chat }],
  ['OpenAI Responses', '/openai/v1/responses', { model: 'gpt-5', input: 'hello' }],
  ['OpenAI chat completions', '/openai/v1/chat/completions', { model: 'gpt-4.1', messages: chat }],
  ['Gemini', gemini, { contents }],
])('%s', (name, path, body) => {
  it.each(['at once', 'as a stream'])('returns %s, and is counted for the session and the user', async (how) => {
    const stream = how === 'as a stream';
    const session = `ses_${name}_${how}`.replaceAll(' ', '_');
    const token = await ada.token({ session });
    const action = name !== 'Gemini' ? '' : stream ? ':streamGenerateContent?alt=sse' : ':generateContent';
    const before = await gateway.models.usage.today(ada.principal.userId);
    const { status, text, headers } = await gateway.ask(path + action, {
      headers: { authorization: `Bearer ${token}` },
      body: name === 'Gemini' ? body : { ...body, stream },
    });
    expect(text).toContain(stream ? 'Hello' : 'Hello from the model.');
    expect(status).toBe(200);
    expect(headers['content-type']).toContain(stream ? 'text/event-stream' : 'application/json');
    const used = await gateway.models.usage.session(session);
    expect(used).toMatchObject({ calls: 1, input: 12, output: 7, unpriced: 0, estimated: 0 });
    expect(used.costUsd).toBeGreaterThan(0);
    const today = await gateway.models.usage.today(ada.principal.userId);
    expect(today.calls - before.calls).toBe(1);
    expect(today.input - before.input).toBe(12);
  });
});

describe('the request to the provider', () => {
  it('has the real key, and none from the agent', async () => {
    const seen: { headers: Record<string, unknown>; url: string }[] = [];
    const { url } = await provide((request, response) => {
      seen.push({ headers: request.headers, url: request.url ?? '' });
      response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const person = await own.person('ada', KEY);
    const token = await person.token();
    const places: Record<string, string>[] = [
      { authorization: `Bearer ${token}` },
      { 'x-api-key': token },
      { 'x-goog-api-key': token },
    ];
    const more = { cookie: 'a=b', 'proxy-authorization': 'x', 'x-forwarded-for': '1.2.3.4', te: 'trailers' };
    for (const place of places) {
      const headers = { ...place, ...more, 'anthropic-beta': 'effort-2025-11-24', connection: 'keep-alive, x-api-key' };
      const { status } = await own.ask('/anthropic/v1/messages?beta=true&api_key=mine', {
        headers,
        body: { model: 'claude-sonnet-4-5', messages: [] },
      });
      expect(status).toBe(200);
    }
    const inQuery = await own.ask(`${gemini}:generateContent?key=${token}&alt=sse`, { body: { contents } });
    expect(inQuery.status).toBe(502); // what it answers is no answer of Gemini's
    for (const { headers, url: asked } of seen.slice(0, 3)) {
      expect(headers).toMatchObject({
        'x-api-key': KEY,
        'anthropic-beta': 'effort-2025-11-24',
        'accept-encoding': 'identity',
      });
      expect(Object.keys(headers).toSorted()).toEqual([
        'accept-encoding',
        'anthropic-beta',
        'connection',
        'content-length',
        'content-type',
        'host',
        'x-api-key',
      ]);
      expect(asked).toBe('/v1/messages?beta=true');
    }
    expect(seen[3]).toMatchObject({ url: '/v1beta/models/gemini-2.5-pro:generateContent?alt=sse' });
    expect(seen[3]?.headers['x-goog-api-key']).toBe(KEY);
    expect(JSON.stringify(seen)).not.toContain(token);
  });

  it('reuses connections', async () => {
    const sockets = new Set<unknown>();
    const { url } = await provide((request, response) => {
      sockets.add(request.socket);
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const token = await (await own.person('ada', KEY)).token();
    for (let call = 0; call < 5; call += 1) expect((await own.messages(token)).status).toBe(200);
    expect(sockets.size).toBe(1);
  });

  it('is the agent’s request, byte for byte', async () => {
    const bodies: string[] = [];
    const { url } = await provide(async (request, response) => {
      bodies.push(Buffer.concat(await request.toArray()).toString());
      response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const token = await (await own.person('ada', KEY)).token();
    const body = '{ "model":"claude-sonnet-4-5", "top_k": 12345678901234567890, "system":"\\u00e9 é \\"model\\": 1" }';
    await own.messages(token, { body });
    expect(bodies).toEqual([body]);
  });
});

describe('usage', () => {
  it('is kept after a restart, and so is the token', async () => {
    const settings = { providers: at(model.url) };
    const first = await Gateway.open({ settings });
    const person = await first.person('ada', KEY);
    const token = await person.token({ session: 'ses_1' });
    await first.messages(token);
    await first.close();
    const second = await Gateway.open({ settings, dataDir: first.dataDir });
    expect((await second.messages(token)).status).toBe(200);
    expect(await second.models.usage.session('ses_1')).toMatchObject({ calls: 2, input: 24, output: 14 });
    const [day, ...others] = await second.models.usage.user(person.principal.userId);
    expect(others).toEqual([]);
    expect(day).toMatchObject({ calls: 2, day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/) });
  });

  it('of many concurrent calls is complete', async () => {
    const token = await ada.token({ session: 'ses_many' });
    await Promise.all(Array.from({ length: 12 }, () => gateway.messages(token, { stream: true })));
    expect(await gateway.models.usage.session('ses_many')).toMatchObject({ calls: 12, input: 144, output: 84 });
  });

  it('of a model without a price is counted only in tokens', async () => {
    const token = await ada.token({ session: 'ses_unknown' });
    await gateway.messages(token, { body: { model: 'claude-tomorrow', max_tokens: 9, messages: chat } });
    expect(await gateway.models.usage.session('ses_unknown')).toMatchObject({
      calls: 1,
      input: 12,
      unpriced: 1,
      costUsd: 0,
    });
  });

  it('of an agent that disconnects is estimated, and its call to the provider ends', async () => {
    const ended = Promise.withResolvers<void>();
    const { url } = await provide((request, response) => {
      request.resume();
      response.on('close', ended.resolve);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const usage = { input_tokens: 50, output_tokens: 1 };
      send(response, { type: 'message_start', message: { model: 'claude-sonnet-4-5', usage } });
      send(response, { type: 'content_block_delta', delta: { type: 'text_delta', text: 'x'.repeat(400) } });
    });
    const own = await Gateway.open({ settings: { providers: at(url) }, clock: () => 0 });
    const person = await own.person('ada', KEY);
    const leave = new AbortController();
    const onText = (text: string) => text.includes('xxxx') && leave.abort();
    await expect(own.messages(await person.token(), { stream: true, signal: leave.signal, onText })).rejects.toThrow();
    await ended.promise;
    const used = () => own.models.usage.session('ses_ada');
    await expect.poll(used).toMatchObject({ calls: 1, input: 50, output: 134, estimated: 1 });
  });
});

describe('budgets', () => {
  it.each([
    ['USD of the session', { sessionUsd: 0.0001 }, {}],
    ['tokens of the session', { sessionTokens: 10 }, {}],
    ['USD of the user', {}, { modelUsdPerDay: 0.0001 }],
    ['tokens of the user', {}, { modelTokensPerDay: 10 }],
  ])(
    'in %s stop further calls before they are made, with an error in the provider’s format',
    async (name, settings, quotas) => {
      const own = await Gateway.open({ settings: { providers: at(model.url), ...settings } });
      const token = await (await own.person('ada', KEY, quotas)).token();
      expect((await own.messages(token)).status).toBe(200);
      const asked = model.getRequests().length;
      const { status, text, headers } = await own.messages(token);
      expect(status).toBe(429);
      expect(JSON.parse(text)).toMatchObject({ type: 'error', error: { type: 'rate_limit_error' } });
      expect(headers['x-should-retry']).toBe('false');
      expect(text).toMatch(/may (spend|use) [\d.]+/);
      // That of a session is for its whole life, and that of a user the same in every session.
      const [helps, not] = name.endsWith('session') ? ['another session', 'next day'] : ['next day', 'another session'];
      expect(text).toContain(helps);
      expect(text).not.toContain(not);
      expect(model.getRequests()).toHaveLength(asked);
      const { text: other } = await own.ask('/openai/v1/responses', {
        headers: { authorization: `Bearer ${token}` },
        body: { model: 'gpt-5', input: 'x' },
      });
      expect(JSON.parse(other).error.code).toBe('insufficient_quota');
    },
  );

  it('in USD allow no model without a price', async () => {
    const own = await Gateway.open({ settings: { providers: at(model.url), sessionUsd: 5 } });
    const token = await (await own.person('ada', KEY)).token();
    const { status, text } = await own.messages(token, { body: { model: 'claude-tomorrow', messages: chat } });
    expect(status).toBe(403);
    expect(text).toContain('cella serve --price claude-tomorrow=INPUT/OUTPUT/CACHE_READ/CACHE_WRITE');
    const priced = await Gateway.open({
      settings: { providers: at(model.url), sessionUsd: 5, prices: ['claude-tomorrow=1/2/0.1/1.25'] },
    });
    const other = await (await priced.person('ada', KEY)).token();
    const { status: well } = await priced.messages(other, { body: { model: 'claude-tomorrow', messages: chat } });
    expect(well).toBe(200);
    expect((await priced.models.usage.session('ses_ada')).costUsd).toBeGreaterThan(0);
  });
});

describe('allowed models', () => {
  it('are the configured ones, by pattern, in every wire format', async () => {
    const models = ['anthropic=claude-haiku-*', 'openai=gpt-5-mini', 'gemini=gemini-2.5-flash*'];
    const own = await Gateway.open({ settings: { providers: at(model.url), models } });
    const token = await (await own.person('ada', KEY)).token();
    const headers = { authorization: `Bearer ${token}` };
    const ask = (path: string, body: unknown) => own.ask(path, { headers, body });
    const asked = model.getRequests().length;
    const refused = [
      await ask('/anthropic/v1/messages', { model: 'claude-sonnet-4-5', messages: chat }),
      await ask('/anthropic/v1/messages', '{"model":"claude-sonnet-4-5","model":"claude-haiku-4-5","messages":[]}'),
      await ask('/anthropic/v1/messages', '{"model":"claude-sonnet-4-5","m\\u006fdel":"claude-haiku-4-5"}'),
      await ask('/openai/v1/chat/completions', { model: 'gpt-5', messages: chat }),
      await ask(`${gemini}:generateContent`, { contents, model: 'gemini-2.5-flash' }),
    ];
    expect(refused.map(({ status }) => status)).toEqual([403, 400, 400, 403, 403]);
    expect(JSON.parse(refused[0]?.text ?? '')).toMatchObject({ type: 'error', error: { type: 'permission_error' } });
    expect(JSON.parse(refused[4]?.text ?? '')).toMatchObject({ error: { code: 403, status: 'PERMISSION_DENIED' } });
    expect(model.getRequests()).toHaveLength(asked);
    const allowed = await ask('/anthropic/v1/messages', { model: 'claude-haiku-4-5', max_tokens: 5, messages: chat });
    expect(allowed.status).toBe(200);
  });

  const claude = { model: 'claude-haiku-4-5', max_tokens: 5, messages: chat };
  const advisor = { type: 'advisor_20260301', name: 'advisor' };
  const image = { type: 'image_generation' };
  it.each<[string, string, object]>([
    ['/anthropic/v1/messages', 'claude-opus-5', { ...claude, fallbacks: [{ model: 'claude-opus-5' }] }],
    ['/anthropic/v1/messages', 'claude-opus-5', { ...claude, tools: [{ ...advisor, model: 'claude-opus-5' }] }],
    [
      '/anthropic/v1/messages/count_tokens',
      'claude-opus-5',
      { ...claude, tools: [{ ...advisor, model: 'claude-opus-5' }], max_tokens: undefined },
    ],
    [
      '/openai/v1/responses',
      'gpt-image-1',
      { model: 'gpt-5-mini', input: 'a', tools: [{ ...image, model: 'gpt-image-1' }] },
    ],
    [
      `${gemini}:generateContent`.replace('2.5-pro', '2.5-flash'),
      'gemini-2.5-pro',
      { contents, model: 'models/gemini-2.5-pro' },
    ],
  ])('are also those that a request to %s names at any other place: %s', async (path, named, body) => {
    const models = ['anthropic=claude-haiku-*', 'openai=gpt-5-mini', 'gemini=gemini-2.5-flash*'];
    const own = await Gateway.open({ settings: { providers: at(model.url), models } });
    const headers = { 'x-api-key': await (await own.person('ada', KEY)).token() };
    const asked = model.getRequests().length;
    const { status, text } = await own.ask(path, { headers, body });
    expect(status).toBe(403);
    expect(text).toContain(`The model ${named} of`);
    expect(model.getRequests()).toHaveLength(asked);
  });

  it('have a price, wherever a request names them, if there is a budget in USD', async () => {
    const own = await Gateway.open({ settings: { providers: at(model.url), sessionUsd: 5 } });
    const token = await (await own.person('ada', KEY)).token();
    const body = { ...claude, fallbacks: [{ model: 'claude-tomorrow' }] };
    const { status, text } = await own.messages(token, { body });
    expect([status, text]).toEqual([403, expect.stringContaining('The model claude-tomorrow has no price')]);
  });
});

describe('keys just in time', () => {
  it('are returned for a valid token, and then there is no gateway; with the gateway they are not returned', async () => {
    const own = await Gateway.open({ settings: { providers: at(model.url), keys: 'just-in-time' } });
    const token = await (await own.person('ada', KEY)).token();
    expect(await own.models.releaseKey({ token, provider: 'anthropic' })).toBe(KEY);
    const forged = own.models.releaseKey({ token, provider: 'anthropic', expected: { session: 'ses_other' } });
    await expect(forged).rejects.toMatchObject({ code: 'FORBIDDEN', details: { mismatch: 'session' } });
    expect((await own.messages(token)).status).toBe(403);
    await own.access.sessionTokens.revoke('trn_ada');
    const late = own.models.releaseKey({ token, provider: 'anthropic' });
    await expect(late).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    const through = gateway.models.releaseKey({ token: await ada.token(), provider: 'anthropic' });
    await expect(through).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });
});

function send(response: { write(text: string): unknown }, event: { type: string } & Record<string, unknown>): void {
  response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

it.each([
  ['says nothing of it', '{ "model":"gpt-4.1","stream":true,"messages":[]}'],
  [
    'says something else',
    '{"model":"gpt-4.1","stream_options" : {"include_obfuscation":false} ,"stream":true,"messages":[]}',
  ],
  ['wants none', '{"model":"gpt-4.1","stream":true,"stream_options":null,"messages":[]}'],
])('a stream of chat completions reports its usage, even if the agent %s', async (_what, body) => {
  const heard = Promise.withResolvers<string>();
  const { url } = await provide(async (request, response) => {
    heard.resolve(Buffer.concat(await request.toArray()).toString());
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n');
  });
  const own = await Gateway.open({ settings: { providers: at(url) } });
  const token = await (await own.person('ada', KEY)).token();
  await own.ask('/openai/v1/chat/completions', { headers: { authorization: `Bearer ${token}` }, body });
  const { stream_options: before, ...rest } = JSON.parse(body);
  expect(JSON.parse(await heard.promise)).toEqual({ ...rest, stream_options: { ...before, include_usage: true } });
});

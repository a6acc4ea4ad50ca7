/** The model gateway among agents that try to get more out of it, and providers that do what they should not. */

import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import type { Logger } from 'pino';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { at, Gateway, message, type Person, provide } from '../../support/servers/gateway.ts';

const KEY = 'sk-test-CANARY-0123456789';
const asked: string[] = [];
let made = 0;
let address: string;
let gateway: Gateway;
let ada: Person;
let token: string;

beforeAll(async () => {
  const { url } = await provide((request, response) => {
    asked.push(request.url ?? '');
    request.resume();
    response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
  });
  address = url;
  gateway = await Gateway.open({ settings: { providers: at(url) }, mostBytes: { request: 100_000 } });
  ada = await gateway.person('ada', KEY);
  token = await ada.token();
});

const body = { model: 'claude-sonnet-4-5', messages: [] };

describe('paths', () => {
  it.each([
    '/anthropic/../admin',
    '/anthropic/v1/../../admin',
    '/anthropic/%2e%2e/v1/messages',
    '/anthropic/v1%2fmessages',
    '/anthropic/v1/messages/',
    '/anthropic//v1/messages',
    '/anthropic/v1/messages;x=1',
    '/anthropic/v1/messages/batches',
    '/anthropic/v1/messages%00',
    '/anthropic/@evil.example/v1/messages',
    '/anthropic/v1/files',
    '/anthropic/v1/organizations/api_keys',
    '/openai/v1/messages',
    '/openai/v1/responses/../files',
    '/gemini/v1beta/models/../files:generateContent',
    '/gemini/v1beta/models/a%2fb:generateContent',
    '/gemini/v1beta/models/gemini-2.5-pro:batchGenerateContent',
    '/gemini/v1beta/tunedModels/x:generateContent',
  ])('%s gets a 404', async (path) => {
    const before = asked.length;
    const { status, text } = await gateway.ask(path, { headers: { 'x-api-key': token }, body });
    expect(status).toBe(404);
    expect(JSON.parse(text).error).toBeDefined();
    expect(asked).toHaveLength(before);
  });

  it.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'GET'])('the method %s gets a 404 instead of POST', async (method) => {
    const { status } = await gateway.ask('/anthropic/v1/messages', { method, headers: { 'x-api-key': token } });
    expect(status).toBe(404);
  });

  it('of other handlers are passed on', async () => {
    for (const path of [
      '/',
      '/mcp',
      '/anthropic',
      '/anthropicx/v1/messages',
      'http://evil.example/anthropic/v1/messages',
    ]) {
      expect((await gateway.ask(path, { headers: { 'x-api-key': token }, body })).status).toBe(418);
    }
  });

  it('drop a query that could name another host or key', async () => {
    await gateway.messages(token);
    const path = '/anthropic/v1/messages?beta=true&key=&host=evil&beta=%0d%0ax-evil:1&url=http://evil';
    const { status } = await gateway.ask(path.replace('key=', `key=${token}`), {
      headers: { 'x-api-key': token },
      body,
    });
    expect(status).toBe(200);
    expect(asked.at(-1)).toBe('/v1/messages?beta=true');
  });
});

describe('tokens', () => {
  it.each<[string, () => Record<string, string | string[]>]>([
    ['none', () => ({})],
    ['the real key', () => ({ 'x-api-key': KEY })],
    ['one of a user', () => ({ 'x-api-key': `cella_${token.slice(4)}` })],
    ['a forged one', () => ({ 'x-api-key': `${token.slice(0, -4)}AAAA` })],
    ['two that differ', () => ({ 'x-api-key': token, authorization: 'Bearer cst_other' })],
    ['the same header twice', () => ({ 'x-api-key': [token, 'other'] })],
    ['another scheme', () => ({ authorization: `Basic ${token}` })],
    ['a very long one', () => ({ 'x-api-key': token + 'a'.repeat(8000) })],
  ])('%s is refused as the provider would, and nothing is asked', async (_name, headers) => {
    const before = asked.length;
    const { status, text } = await gateway.ask('/anthropic/v1/messages', { headers: headers(), body });
    expect(status).toBe(401);
    expect(JSON.parse(text)).toMatchObject({ type: 'error', error: { type: 'authentication_error' } });
    expect(text).not.toContain(KEY);
    expect(asked).toHaveLength(before);
    const openai = await gateway.ask('/openai/v1/responses', { headers: headers(), body });
    expect(JSON.parse(openai.text)).toMatchObject({ error: { code: 'invalid_api_key' } });
    const gemini = await gateway.ask('/gemini/v1beta/models/x:generateContent', { headers: headers(), body });
    expect(JSON.parse(gemini.text)).toMatchObject({ error: { code: 401, status: 'UNAUTHENTICATED' } });
  });

  it('of another session do not work at a socket of this one', async () => {
    const own = await Gateway.open({
      settings: { providers: at(address) },
      expected: { session: 'ses_ada', runner: 'rnr_ada' },
    });
    const person = await own.person('ada', KEY);
    expect((await own.messages(await person.token())).status).toBe(200);
    for (const other of [{ session: 'ses_bob' }, { runner: 'rnr_bob' }]) {
      const { status, text } = await own.messages(await person.token(other));
      expect(status).toBe(403);
      expect(JSON.parse(text).error).toMatchObject({
        type: 'permission_error',
        message: expect.stringContaining('another'),
      });
    }
  });

  it('that are revoked in the middle of a stream let it end, and nothing after it starts', async () => {
    const began = Promise.withResolvers<ServerResponse>();
    const { url } = await provide((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(event('message_start'));
      began.resolve(response);
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const person = await own.person('ada', KEY);
    const good = await person.token();
    const stream = own.messages(good, { stream: true });
    const provider = await began.promise;
    await own.access.sessionTokens.revoke('trn_ada');
    provider.end(event('message_stop'));
    expect(await stream).toMatchObject({ status: 200, text: expect.stringContaining('message_stop') });
    expect((await own.messages(good)).status).toBe(401);
  });

  it('of a disabled user are refused from the next call on', async () => {
    const own = await Gateway.open({ settings: { providers: at(address) } });
    const good = await (await own.person('ada', KEY)).token();
    await own.access.users.update(own.access.localAdmin(), 'ada', { disabled: true });
    expect((await own.messages(good)).status).toBe(401);
  });
});

describe('two users at once', () => {
  it('each use their own key and never the other’s, and a user without a key uses nobody’s', async () => {
    const { url } = await provide(async (request, response) => {
      const text = Buffer.concat(await request.toArray()).toString();
      const who = /"content":"(\w+)"/.exec(text)?.[1];
      const key = request.headers['x-api-key'];
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(message(`${who} ${key === `key-of-${who}-123456`}`));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const people = await Promise.all(
      ['ada', 'bob'].map(async (name) => ({
        name,
        token: await (await own.person(name, `key-of-${name}-123456`)).token(),
      })),
    );
    const calls = Array.from({ length: 20 }, (_, index) => people[index % 2]).map(async (person) => {
      const said = [{ role: 'user', content: person?.name }];
      const { text } = await own.messages(person?.token ?? '', {
        body: { model: 'claude-sonnet-4-5', messages: said },
      });
      expect(JSON.parse(text).content[0].text).toBe(`${person?.name} true`);
    });
    await Promise.all(calls);
    const poor = await (await own.person('eve', undefined)).token();
    const { status, text } = await own.messages(poor);
    expect(status).toBe(403);
    expect(text).toContain('cella credentials set anthropic');
    expect((await own.models.usage.session('ses_eve')).calls).toBe(0);
    expect(await own.models.usage.session('ses_ada')).toMatchObject({ calls: 10 });
  });
});

describe('bodies', () => {
  it('reach the provider as UTF-8, whatever charset the agent names: the gateway has read them as that', async () => {
    const types: (string | undefined)[] = [];
    const { url } = await provide((request, response) => {
      types.push(request.headers['content-type']);
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
    });
    const own = await Gateway.open({ settings: { providers: at(url) } });
    const good = await (await own.person('ada', KEY)).token();
    for (const charset of ['utf-7', 'utf-16', 'x-user-defined']) {
      const headers = { 'content-type': `application/json; charset=${charset}` };
      expect((await own.messages(good, { headers })).status).toBe(200);
    }
    expect(types).toEqual(['application/json', 'application/json', 'application/json']);
  });

  it('that are too large are refused, with and without a length', async () => {
    const large = Buffer.alloc(200_000, 0x20);
    const headers = { 'x-api-key': token };
    const said = await gateway.ask('/anthropic/v1/messages', { headers, body: large });
    expect(said.status).toBe(413);
    expect(JSON.parse(said.text).error.type).toBe('request_too_large');
    const chunked = { ...headers, 'transfer-encoding': 'chunked' };
    expect((await gateway.ask('/anthropic/v1/messages', { headers: chunked, body: large })).status).toBe(413);
  });

  it.each<[string, unknown, Record<string, string>]>([
    ['no JSON', 'hello', {}],
    ['a list', '[]', {}],
    ['no model', {}, {}],
    ['a model that is no name', { model: 'a\r\nx-evil: 1' }, {}],
    ['work in the background', { model: 'gpt-5', background: true }, {}],
    ['something compressed', 'x', { 'content-encoding': 'gzip' }],
    ['another type', { model: 'x' }, { 'content-type': 'text/plain' }],
    [
      'more keys than anybody means',
      `{"model":"gpt-5"${',"k":0'.repeat(2000).replaceAll('k', () => `k${made++}`)}}`,
      {},
    ],
    ['no bottom', `{"model":"gpt-5","input":${'['.repeat(10_000)}${']'.repeat(10_000)}}`, {}],
    ['bytes that are no text', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), {}],
  ])('with %s are refused', async (_name, sent, headers) => {
    const before = asked.length;
    const { status } = await gateway.ask('/openai/v1/responses', {
      headers: { 'x-api-key': token, ...headers },
      body: sent,
    });
    expect(status).toBe(400);
    expect(asked).toHaveLength(before);
  });

  it('that are expensive to parse are only partly parsed, and pass unchanged', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const laborious = `{"model":"gpt-5","messages":[${'{},'.repeat(30_000)}{}]}`;
    const { status } = await gateway.ask('/anthropic/v1/messages', {
      headers: { 'x-api-key': token },
      body: laborious,
    });
    const longest = Math.max(...parse.mock.calls.map(([text]) => text.length));
    parse.mockRestore();
    expect(status).toBe(200);
    expect(longest).toBeLessThan(laborious.length / 10);
  });

  it('whose length is given in two ways are refused', async () => {
    const before = asked.length;
    const lines = [
      'POST /anthropic/v1/messages HTTP/1.1',
      'host: x',
      `x-api-key: ${token}`,
      'content-type: application/json',
      'content-length: 4',
      'transfer-encoding: chunked',
    ];
    const socket = connect(gateway.socket);
    socket.end(`${lines.join('\r\n')}\r\n\r\n0\r\n\r\nGET /anthropic/v1/models HTTP/1.1\r\nhost: x\r\n\r\n`);
    const answer = Buffer.concat(await socket.toArray()).toString();
    expect(answer).toMatch(/^HTTP\/1.1 400/);
    expect(asked).toHaveLength(before);
  });
});

describe('a flood of calls', () => {
  it('waits at a total of bytes, even if its bodies never end, and continues when they are gone', async () => {
    const lines = ['POST /anthropic/v1/messages HTTP/1.1', 'host: x', `x-api-key: ${token}`];
    const head = [...lines, 'content-type: application/json', 'content-length: 99000'].join('\r\n');
    const sockets = Array.from({ length: 6 }, () => connect(gateway.socket));
    const answers = sockets.map(
      (socket) => new Promise<string>((resolve) => socket.once('data', (data) => resolve(`${data}`))),
    );
    for (const socket of sockets) socket.write(`${head}\r\n\r\n{"model":"${'x'.repeat(90_000)}`);
    expect(await Promise.race(answers)).toMatch(/^HTTP\/1.1 429/);
    for (const socket of sockets) socket.destroy();
    await expect.poll(async () => (await gateway.messages(token)).status).toBe(200);
  });

  it('waits at a number of calls per session', async () => {
    const held: ServerResponse[] = [];
    const { url } = await provide((request, response) => {
      request.resume();
      held.push(response);
    });
    const own = await Gateway.open({ settings: { providers: at(url) }, mostCalls: 2 });
    const [one, other] = [await own.person('ada', KEY), await own.person('bob', KEY)];
    const calls = [own.messages(await one.token()), own.messages(await one.token())];
    await expect.poll(() => held.length).toBe(2);
    const { status, headers } = await own.messages(await one.token());
    expect([status, headers['retry-after']]).toEqual([429, '1']);
    const elsewhere = own.messages(await other.token());
    await expect.poll(() => held.length).toBe(3);
    for (const response of held) response.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
    expect((await Promise.all([...calls, elsewhere])).map((reply) => reply.status)).toEqual([200, 200, 200]);
    expect((await Promise.all([own.messages(await one.token()), answerNext(held)]))[0].status).toBe(200);
  });
});

describe('a provider', () => {
  /** For one that says nothing; others have the time of a busy machine. */
  const hasty = { connectMs: 20_000, answerMs: 300, idleMs: 300, pausesMs: [1, 1] };
  const patient = { connectMs: 20_000, answerMs: 30_000, idleMs: 30_000, pausesMs: [1, 1] };
  const withProvider = async (answer: (response: ServerResponse) => void, stream = true, timeouts = patient) => {
    const lines: unknown[] = [];
    const note = (...words: unknown[]) => void lines.push(words);
    const log = { info: note, warn: note, error: note } as unknown as Logger;
    const { url } = await provide((request, response) => {
      request.resume();
      answer(response);
    });
    const own = await Gateway.open({ settings: { providers: at(url) }, upstreamTimeouts: timeouts, log });
    const good = await (await own.person('ada', KEY)).token();
    const reply = await own.messages(good, { stream }).catch((error: Error) => error);
    expect(JSON.stringify([lines, reply instanceof Error ? reply.message : reply])).not.toContain(KEY);
    return { reply, own, lines };
  };
  const timeoutsFor = (name: string) => (/never answers|does not answer|is silent/.test(name) ? hasty : patient);
  const failure = { type: 'error', error: { type: 'api_error', message: expect.stringContaining('The provider') } };

  it.each<[string, (response: ServerResponse) => void]>([
    ['never answers', () => {}],
    ['breaks off at once', (response) => response.destroy()],
    ['leads elsewhere', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    ['answers with a page', (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Hi</h1>')],
    ['answers with half of JSON', (response) => json(response).end('{"type":"mess')],
    ['answers with JSON of another kind', (response) => json(response).end('{"hello":1}')],
    ['is silent in the middle of JSON', (response) => json(response).write('{')],
    [
      'compresses',
      (response) => response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(),
    ],
    ['tells the key in JSON', (response) => json(response).end(message(`Your key is ${KEY}`))],
    ['tells the key in an error', (response) => response.writeHead(400).end(`bad key ${KEY}`)],
  ])('that %s gives an error in its own words', async (name, answer) => {
    const { reply } = await withProvider(answer, false, timeoutsFor(name));
    expect(reply).toMatchObject({ status: 502 });
    if ('text' in reply) expect(JSON.parse(reply.text)).toMatchObject(failure);
  });

  it.each<[string, (response: ServerResponse) => void]>([
    ['is silent in the middle', (response) => sse(response).write(event('message_start'))],
    ['ends too early', (response) => sse(response).end(event('message_start'))],
    [
      'breaks off',
      (response) => sse(response).write(event('message_start'), () => setImmediate(() => response.destroy())),
    ],
    ['streams garbage', (response) => sse(response).end('\x00\xff garbage\n'.repeat(1000))],
  ])('that %s in a stream gives an error as its last event', async (name, answer) => {
    const { reply } = await withProvider(answer, true, timeoutsFor(name));
    expect(reply).toMatchObject({ status: 200 });
    if (!('text' in reply)) return;
    const last = reply.text.trim().split('\n').at(-1) ?? '';
    expect(reply.text).toContain('event: error');
    expect(JSON.parse(last.slice('data: '.length))).toMatchObject(failure);
  });

  it.each<[string, 'true' | 'false', (response: ServerResponse) => void]>([
    ['does not answer', 'false', () => {}],
    ['leads elsewhere', 'false', (response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()],
    ['breaks off at once', 'true', (response) => response.destroy()],
    ['answers with half of JSON', 'true', (response) => json(response).end('{"type":"mess')],
  ])('that %s: whether another try can help is %s', async (name, helps, answer) => {
    const { reply } = await withProvider(answer, false, timeoutsFor(name));
    expect(reply).toMatchObject({ status: 502, headers: { 'x-should-retry': helps } });
  });

  it('that cannot be reached is retried here, and the agent is asked not to retry', async () => {
    const { url, server } = await provide(() => {});
    server.close();
    const own = await Gateway.open({ settings: { providers: at(url) }, upstreamTimeouts: patient });
    const reply = await own.messages(await (await own.person('ada', KEY)).token());
    expect(reply).toMatchObject({ status: 502, headers: { 'x-should-retry': 'false' } });
    expect(JSON.parse(reply.text).error.message).toContain('it cannot be reached (ECONNREFUSED), after 3 attempts');
    expect(own.models.gateway.refused.take('trn_ada')).toMatchObject({ code: 'PROVIDER_FAILED' });
  });

  it('that sends the key in a stream, in two parts, is cut off before the second', async () => {
    const { reply } = await withProvider((response) => {
      sse(response).write(`data: ${KEY.slice(0, 12)}`, () => setImmediate(() => response.end(KEY.slice(12))));
    });
    expect(reply instanceof Error ? reply.message : reply.text).not.toContain(KEY);
  });

  it('keeps its errors and headers, without cookies and without the key', async () => {
    const { reply } = await withProvider((response) => {
      const headers = { 'retry-after': '7', 'anthropic-ratelimit-requests-remaining': '0', 'request-id': `req ${KEY}` };
      const more = { 'set-cookie': 'a=b', 'x-echo': KEY, 'content-type': 'application/json', 'x-should-retry': 'true' };
      response.writeHead(429, { ...headers, ...more }).end('{"type":"error","error":{"type":"rate_limit_error"}}');
    }, false);
    if (reply instanceof Error) throw reply;
    expect(reply.status).toBe(429);
    expect(JSON.parse(reply.text)).toEqual({ type: 'error', error: { type: 'rate_limit_error' } });
    expect(reply.headers).toMatchObject({ 'retry-after': '7', 'anthropic-ratelimit-requests-remaining': '0' });
    for (const name of ['set-cookie', 'x-echo', 'request-id']) expect(reply.headers).not.toHaveProperty(name);
  });

  it('that is unreachable is reported with the reason', async () => {
    const own = await Gateway.open({ settings: { providers: at('http://127.0.0.1:1') } });
    const { status, text } = await own.messages(await (await own.person('ada', KEY)).token());
    expect(status).toBe(502);
    expect(text).toContain('ECONNREFUSED');
  });

  it('that sends an endless answer is cut off', async () => {
    const { url } = await provide((request, response) => {
      request.resume();
      sse(response);
      const more = () => {
        while (response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    });
    const own = await Gateway.open({ settings: { providers: at(url) }, mostBytes: { answer: 1_000_000 } });
    const good = await (await own.person('ada', KEY)).token();
    expect((await own.messages(good, { stream: true })).text).toContain('larger than 1000000 bytes');
    expect((await own.models.usage.session('ses_ada')).estimated).toBe(1);
  });
});

const json = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'application/json' });
const sse = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });
const event = (type: string): string => `event: ${type}\ndata: ${JSON.stringify({ type })}\n\n`;

async function answerNext(held: ServerResponse[]): Promise<void> {
  const before = held.length;
  await expect.poll(() => held.length).toBe(before + 1);
  held.at(-1)?.writeHead(200, { 'content-type': 'application/json' }).end(message('hi'));
}

describe('calls that disconnect', () => {
  it('while their token is checked free their place', async () => {
    const own = await Gateway.open({ settings: { providers: at(address) }, mostCalls: 1 });
    const shown = await (await own.person('ada', KEY)).token();
    const { sessionTokens } = own.access;
    const looked = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const check = sessionTokens.check.bind(sessionTokens);
    vi.spyOn(sessionTokens, 'check').mockImplementationOnce(async (...given) => {
      looked.resolve();
      await left.promise;
      return await check(...given);
    });
    own.server.once('request', (_, response) => response.once('close', () => left.resolve()));
    const gone = new AbortController();
    const call = own.messages(shown, { signal: gone.signal }).catch(() => {});
    await looked.promise;
    gone.abort();
    await Promise.all([call, left.promise]);
    await expect.poll(async () => (await own.messages(shown)).status).toBe(200);
  });

  it('before they are answered count towards a budget with what they have said', async () => {
    const arrived = Promise.withResolvers<void>();
    const { url } = await provide((request) => request.resume().on('end', () => arrived.resolve()));
    const other = await Gateway.open({ settings: { providers: at(url), sessionTokens: 1000 } });
    const own = await (await other.person('ada', KEY)).token({ session: 'ses_leaving' });
    const gone = new AbortController();
    const content = 'x'.repeat(8000);
    const call = { body: { ...body, messages: [{ role: 'user', content }] }, signal: gone.signal };
    const left = other.messages(own, call).catch(() => {});
    await arrived.promise;
    gone.abort();
    await left;
    await expect.poll(async () => (await other.models.usage.session('ses_leaving')).input).toBeGreaterThan(1000);
    expect((await other.messages(own)).status).toBe(429);
  });
});

/** The doors of the server: tokens, logins, requests that are two, other people's things, and what operators read. */

import { randomBytes } from 'node:crypto';
import { once as happens } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'vitest';
import { once, type Row } from './row.ts';
import type { World } from './world.ts';

const TOKENS = 'Only a token or login that is good now opens a door.';
const FRAMES = 'A request is one request, and comes from where it says.';
const OTHERS = 'What is another user’s does not exist for you.';
const OPERATOR = 'What operators read is the server’s own word, and cannot be drowned.';
const BODIES = 'A body of any shape is refused or taken, and nothing else.';

function row(name: string, promise: string, attempt: (world: World) => Promise<void>, options: Partial<Row> = {}): Row {
  return { name, promise, on: once, ...options, attempt };
}

/** Bytes as they are, to the server; gives the whole answer. */
export async function raw(world: World, text: string | Buffer, { ms = 3000 } = {}): Promise<string> {
  const { hostname, port } = new URL(world.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {}); // it was cut off
  let answer = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    answer += part;
  });
  const closed = new Promise((resolve) => socket.on('close', resolve));
  await happens(socket, 'connect');
  socket.write(text);
  const timer = setTimeout(() => socket.destroy(), ms);
  await closed;
  clearTimeout(timer);
  world.seen.push(answer);
  return answer;
}

const statusOf = (answer: string): number => Number(/^HTTP\/1\.[01] (\d+)/.exec(answer)?.[1] ?? 0);

const tokens: Row[] = [
  row('guesses tokens, and is slowed down', TOKENS, async (world) => {
    const guesses = Array.from({ length: 3000 }, () => `cella_${randomBytes(8).toString('hex')}_${randomBytes(32).toString('base64url')}`);
    const codes = new Map<number, number>();
    for (let at = 0; at < guesses.length; at += 100) {
      const replies = await Promise.all(guesses.slice(at, at + 100).map((token) => world.mallory.call('GET /v1/me', { token })));
      for (const { status } of replies) codes.set(status, (codes.get(status) ?? 0) + 1);
    }
    expect([...codes.keys()].filter((status) => status !== 401 && status !== 429)).toEqual([]);
    expect(codes.get(429) ?? 0).toBeGreaterThan(0);
    // It is the guesser who waits, and nobody with a token.
    expect((await world.victoria.call('GET /v1/me')).status).toBe(200);
  }, { stalls: false }),
  row('changes each character of a good token', TOKENS, async ({ mallory, victoria }) => {
    const good = victoria.token;
    for (let at = 0; at < good.length; at++) {
      const token = good.slice(0, at) + (good[at] === 'A' ? 'B' : 'A') + good.slice(at + 1);
      const { status } = await mallory.call('GET /v1/me', { token });
      expect.soft([at, [401, 429].includes(status)]).toEqual([at, true]);
    }
  }),
  row('writes a token in odd ways', TOKENS, async (world) => {
    const { token } = world.victoria;
    const odd = [`Basic ${token}`, `bearer  ${token}x`, `Bearer ${token} x`, `Bearer ${token},Bearer x`, `Bearer ${token}%00`, 'Bearer', 'Bearer undefined', 'Bearer null', `Token ${token}`];
    for (const authorization of odd) {
      const reply = await world.mallory.call('GET /v1/me', { token: null, headers: { authorization } });
      expect.soft([authorization.slice(0, 12), reply.status]).toEqual([authorization.slice(0, 12), 401]);
    }
    for (const query of ['token', 'access_token', 'api_key', 'authorization'])
      expect.soft((await world.mallory.call(`GET /v1/me?${query}=${token}`, { token: null })).status).toBe(401);
  }),
  row('uses a token after it was revoked, in a request and in a stream', TOKENS, async (world) => {
    const { mallory } = world;
    const made = await mallory.call('POST /v1/tokens', { body: { name: 'second' } });
    const { token, id } = { token: made.json.token, id: made.json.id ?? made.json.info?.id };
    expect((await mallory.call('GET /v1/me', { token })).status).toBe(200);
    const listed = await mallory.call('GET /v1/tokens');
    const found = listed.json.tokens.find((one: { name: string; id: string }) => one.name === 'second');
    expect((await mallory.call(`DELETE /v1/tokens/${found?.id ?? id}`)).status).toBeLessThan(300);
    expect((await mallory.call('GET /v1/me', { token })).status).toBe(401);
    expect((await mallory.call('GET ~/events', { token })).status).toBe(401);
  }, { quick: true }),
  row('makes itself a token that may do more, for another, or for ever', TOKENS, async ({ mallory }) => {
    for (const body of [
      { name: 'x', user: 'victoria' },
      { name: 'x', user: 'local' },
      { name: 'x', scopes: ['admin'] },
      { name: 'x', scopes: ['*'] },
      { name: 'x', role: 'admin' },
      { name: 'x', userId: 'local' },
    ]) {
      const reply = await mallory.call('POST /v1/tokens', { body });
      expect.soft([JSON.stringify(body), reply.status >= 400]).toEqual([JSON.stringify(body), true]);
    }
    expect((await mallory.call('PATCH /v1/users/mallory', { body: { role: 'admin' } })).status).toBe(403);
    expect((await mallory.call('POST /v1/users', { body: { name: 'm2', role: 'admin' } })).status).toBe(403);
    expect((await mallory.call('GET /v1/audit')).status).toBe(403);
    expect((await mallory.call('POST /v1/server/stop')).status).toBe(403);
  }, { quick: true }),
  row('has a login code used up by a HEAD that somebody’s preview sends', TOKENS, async (world) => {
    const { json } = await world.victoria.call('POST /v1/login-codes', { body: {} });
    await world.ask(`HEAD ${json.path}`, { token: null });
    await world.ask(`OPTIONS ${json.path}`, { token: null });
    const used = await world.ask(`GET ${json.path}`, { token: null });
    expect([200, 302, 303]).toContain(used.status);
    expect((await world.ask(`GET ${json.path}`, { token: null })).status).toBe(401);
  }, { quick: true }),
  row('guesses login codes, and uses one twice at once', TOKENS, async (world) => {
    const { json } = await world.mallory.call('POST /v1/login-codes', { body: {} });
    const both = await Promise.all([1, 2, 3, 4].map(() => world.ask(`GET ${json.path}`, { token: null })));
    expect(both.filter(({ status }) => status < 400)).toHaveLength(1);
    for (let at = 0; at < 50; at++) {
      const { status } = await world.ask(`GET /login?code=${randomBytes(24).toString('base64url')}`, { token: null });
      expect([401, 429]).toContain(status);
    }
    expect((await world.mallory.call('POST /v1/login-codes', { body: { user: 'victoria' } })).status).toBe(403);
  }),
  row('sends a browser’s cookie from another site', TOKENS, async (world) => {
    const { json } = await world.mallory.call('POST /v1/login-codes', { body: {} });
    const { headers } = await world.ask(`GET ${json.path}`, { token: null });
    const cookie = (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    expect(cookie).not.toBe('');
    expect(headers.get('set-cookie')).toMatch(/HttpOnly/i);
    const forged = { cookie, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    for (const what of ['POST /v1/sessions', 'POST /v1/tokens', 'PUT /v1/credentials/anthropic', 'POST /v1/logout'])
      expect.soft([what, (await world.ask(what, { token: null, headers: forged, body: { name: 'x', value: 'x' } })).status]).toEqual([what, 403]);
  }),
];

const two = (world: World, lines: readonly string[], body = ''): string => {
  const { host } = new URL(world.url);
  return [...lines, `Host: ${host}`, `Authorization: Bearer ${world.mallory.token}`, '', body].join('\r\n');
};

const framing: Row[] = [
  ...(
    [
      ['two lengths', ['Content-Length: 5', 'Content-Length: 60']],
      ['a length and chunks', ['Content-Length: 5', 'Transfer-Encoding: chunked']],
      ['chunks in odd spelling', ['Transfer-Encoding: xchunked']],
      ['chunks twice', ['Transfer-Encoding: chunked, identity']],
      ['a length with a sign', ['Content-Length: +5']],
      ['a length in hex', ['Content-Length: 0x5']],
      ['a folded header', ['X-One: a', ' b: c', 'Content-Length: 5']],
      ['a space before the colon', ['Content-Length : 5']],
      ['a bare line feed', ['X: y\nContent-Length: 5']],
    ] as const
  ).map(([name, lines]) =>
    row(`hides a second request behind ${name}`, FRAMES, async (world) => {
      const inner = `GET /v1/sessions/${world.victoria.session} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${world.mallory.token}\r\n\r\n`;
      const answer = await raw(world, two(world, ['POST /v1/login-codes HTTP/1.1', ...lines], `0\r\n\r\n${inner}`));
      // Either it is refused, or its body is its body: nothing of the second is answered with what is there.
      expect(answer).not.toContain('"agentKey"');
      expect(answer.match(/HTTP\/1\.1 2\d\d/g)?.length ?? 0).toBeLessThanOrEqual(1);
    }),
  ),
  row('names another host, as a page whose name was bound anew', FRAMES, async (world) => {
    for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '', 'x:y', '[::1', 'EVIL.example:80']) {
      const lines = [`GET /v1/me HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${world.mallory.token}`, 'Connection: close', '', ''];
      const answer = await raw(world, lines.join('\r\n'));
      expect.soft([host, statusOf(answer) >= 400 || answer === '']).toEqual([host, true]);
    }
  }, { quick: true }),
  row('asks for another server in the line of its request', FRAMES, async (world) => {
    const { host } = new URL(world.url);
    for (const target of ['http://evil.example/v1/me', '//evil.example/v1/me', '*', '/v1/../../etc/passwd', '/v1/sessions/..%2f..%2fetc']) {
      const answer = await raw(world, [`GET ${target} HTTP/1.1`, `Host: ${host}`, 'Connection: close', '', ''].join('\r\n'));
      expect.soft(statusOf(answer) >= 400 || answer === '', `${target}: ${answer.slice(0, 300)}`).toBe(true);
    }
    // Answered here or not at all: never fetched from there.
    await raw(world, [`GET http://127.0.0.1:${world.loopbackPort}/ HTTP/1.1`, `Host: ${host}`, 'Connection: close', '', ''].join('\r\n'));
  }),
  row('speaks CONNECT, TRACE, HTTP/2 and TLS', FRAMES, async (world) => {
    for (const line of ['CONNECT 127.0.0.1:22 HTTP/1.1', 'TRACE / HTTP/1.1', 'PRI * HTTP/2.0', 'TRACK / HTTP/1.1', '\u0016\u0003\u0001\u0002', 'GET / HTTP/9.9']) {
      const answer = await raw(world, `${line}\r\nHost: ${new URL(world.url).host}\r\nConnection: close\r\n\r\n`);
      expect.soft([line, statusOf(answer) >= 400 || answer === '']).toEqual([line, true]);
    }
  }),
  row('forges the marks of another server of a cluster', FRAMES, async (world) => {
    for (const value of ['1', world.victoria.token, 'admin', '{"user":"local"}', 'eyJhbGciOiJub25lIn0.e30.']) {
      const headers = { 'x-cella-hop': value, 'x-forwarded-for': '127.0.0.1', 'x-forwarded-user': 'local', 'x-real-ip': '127.0.0.1', 'x-cella-user': 'local', 'x-original-url': '/v1/users' };
      expect.soft((await world.mallory.call('GET /v1/users', { headers })).status).toBe(403);
      expect.soft((await world.mallory.call('GET /v1/users', { headers, token: null })).status).toBe(401);
      expect.soft((await world.mallory.call(`GET /v1/sessions/${world.victoria.session}`, { headers })).status).toBe(404);
    }
  }, { quick: true }),
  row('asks for a method by a header or a parameter', FRAMES, async (world) => {
    const headers = { 'x-http-method-override': 'DELETE', 'x-method-override': 'DELETE', 'x-http-method': 'DELETE' };
    await world.mallory.call('GET ~', { headers });
    await world.mallory.call('POST ~?_method=DELETE', { headers, body: {} });
    expect((await world.mallory.call('GET ~')).status).toBe(200);
  }),
  row('opens connections that say nothing, and headers that never end', FRAMES, async (world) => {
    const { hostname, port } = new URL(world.url);
    const held = Array.from({ length: 200 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {}); // it was cut off
      socket.write(`GET / HTTP/1.1\r\nHost: ${hostname}\r\nX-A: `);
      return socket;
    });
    await raw(world, `GET / HTTP/1.1\r\n${'x: y\r\n'.repeat(50_000)}`);
    expect((await world.victoria.call('GET /v1/me')).status).toBe(200);
    for (const socket of held) socket.destroy();
  }),
];

const foreign: Row[] = [
  row('asks for a session of another in every way that its id can be written', OTHERS, async ({ mallory, victoria }) => {
    const id = victoria.session;
    for (const path of [id, id.toUpperCase(), `${id}%00`, `${id}%2f`, `x/../${id}`, `${mallory.session}%2f..%2f${id}`, `./${id}`, `${id}?x=1`, `${id};x`]) {
      const { status } = await mallory.call(`GET /v1/sessions/${path}`);
      expect.soft([path, status >= 400]).toEqual([path, true]);
    }
    for (const what of ['POST /execute', 'POST /fork', 'DELETE ', 'POST /prompt', 'GET /files', 'GET /events', 'GET /artifacts', 'POST /mcp', 'GET /transcript', 'POST /input', 'GET /permissions']) {
      const [method, path] = what.split(' ');
      const { status } = await mallory.call(`${method} /v1/sessions/${id}${path}`, method === 'GET' ? {} : { body: { code: 'secret', agentKey: 'x', prompt: 'x', request: 1, text: 'x' } });
      expect.soft([what, status]).toEqual([what, 404]);
    }
  }, { quick: true }),
  row('uses the agent key of another, and keys that belong to the server', OTHERS, async (world) => {
    const { mallory, victoria } = world;
    const { json } = await victoria.call('GET ~');
    for (const agentKey of [json.agentKey, `~${json.agentKey}`, `${victoria.userId}/${json.agentKey}`, '~audit', '~users', '../x', 'a/../../b', 'x\u0000y']) {
      const made = await mallory.call('POST /v1/sessions', { body: { agentKey, ...world.executor } });
      if (made.status >= 300) continue;
      expect.soft(made.json.ownerId).toBe(mallory.userId);
      const run = await mallory.run("[n for n in globals() if n in ('kept', 'secret')] + __import__('os').listdir('.')", { session: made.json.id });
      expect.soft(JSON.stringify(run.value)).not.toContain('diary');
      await mallory.call(`DELETE /v1/sessions/${made.json.id}`);
    }
  }, { quick: true }),
  row('repeats the Idempotency-Key of another', OTHERS, async (world) => {
    const { mallory, victoria } = world;
    const headers = { 'idempotency-key': 'the-same' };
    await victoria.call('POST ~/execute', { headers, body: { code: 'secret' } });
    const reply = await mallory.call('POST ~/execute', { headers, body: { code: '"mine"' } });
    expect([reply.json.value, reply.json.joined]).toEqual(['mine', false]);
    const shared = await victoria.call('PATCH ~', { body: { shares: [{ user: 'mallory', right: 'view' }] } });
    expect(shared.status).toBe(200);
    const forbidden = await mallory.call(`POST /v1/sessions/${victoria.session}/execute`, { headers, body: { code: 'secret' } });
    expect(forbidden.status).toBe(403);
    await victoria.call('PATCH ~', { body: { shares: [] } });
  }, { quick: true }),
  row('lists sessions, kernels, tokens, rules and credentials of others by filters', OTHERS, async ({ mallory, victoria }) => {
    for (const path of ['/v1/sessions?owner=victoria', `/v1/sessions?owner=${victoria.userId}`, '/v1/sessions?owner=*', '/v1/sessions?owner=', '/v1/agents', '/v1/tokens?user=victoria', '/v1/credentials?user=victoria', '/v1/permission-rules?user=victoria', '/v1/usage?user=victoria', '/v1/things?user=victoria', '/v1/profiles?user=victoria']) {
      const { text } = await mallory.call(`GET ${path}`);
      expect.soft([path, text.includes(victoria.session)]).toEqual([path, false]);
    }
    expect((await mallory.call('GET /v1/users/victoria')).status).toBeGreaterThanOrEqual(400);
  }),
  row('has another person fork a session that it has prepared', 'A fork by another person runs nothing with that person’s rights before they confirm.', async (world) => {
    const { mallory, victoria } = world;
    const session = await mallory.open();
    const code = `
stolen = []
class Trap:
    def __repr__(self):
        try:
            return 'LOADED ' + str(artifacts.load('diary'))
        except BaseException as error:
            return 'REFUSED ' + type(error).__name__
trap = Trap()
import sys
sys.displayhook = lambda value: stolen.append(repr(trap))`;
    await mallory.value(code, { session });
    await mallory.call(`PATCH /v1/sessions/${session}`, { body: { shares: [{ user: 'victoria', right: 'manage' }] } });
    const fork = await victoria.call(`POST /v1/sessions/${session}/fork`, { body: { agentKey: `forked ${randomBytes(4).toString('hex')}` } });
    expect(fork.status).toBe(201);
    // Any call of the victim wakes the planted code; what it got, it could have sent anywhere.
    const seen = await victoria.call(`POST /v1/sessions/${fork.json.id}/execute`, { body: { code: '[stolen, repr(trap)]' } });
    await victoria.call(`DELETE /v1/sessions/${fork.json.id}`);
    await mallory.call(`DELETE /v1/sessions/${session}`);
    expect(seen.text).not.toContain(world.secrets["the neighbour's artifact"]);
    expect(seen.text).not.toContain('diary');
  }, { quick: true }),
  row('deletes a session, and with it the files of a fork of another', 'Deleting a session takes nothing of a fork.', async (world) => {
    const { mallory, victoria } = world;
    const session = await mallory.open();
    await mallory.value("open('shared', 'w').write('x')", { session });
    await mallory.call(`PATCH /v1/sessions/${session}`, { body: { shares: [{ user: 'victoria', right: 'manage' }] } });
    const fork = await victoria.call(`POST /v1/sessions/${session}/fork`, { body: { agentKey: `fork ${randomBytes(4).toString('hex')}` } });
    if (fork.status >= 300) return;
    await mallory.call(`DELETE /v1/sessions/${session}`);
    const { text } = await victoria.call(`GET /v1/sessions/${fork.json.id}/files/content?path=shared`);
    expect(text).toBe('x');
    await victoria.call(`DELETE /v1/sessions/${fork.json.id}`);
  }),
];

const operators: Row[] = [
  row('drowns the audit log as a viewer', OPERATOR, async (world) => {
    const viewer = await world.user(`viewer${randomBytes(4).toString('hex')}`, 'viewer');
    const calls = Array.from({ length: 1000 }, (_, at) => () => viewer.call('POST /v1/sessions', { body: { agentKey: `x${at}` } }));
    for (let at = 0; at < calls.length; at += 100) await Promise.all(calls.slice(at, at + 100).map((call) => call()));
    let count = 0;
    for (let after = 0; ; ) {
      const { json } = await world.ask(`GET /v1/audit?after=${after}&limit=1000`);
      const entries: { seq: number; userName: string }[] = json.entries;
      count += entries.filter(({ userName }) => userName === viewer.name).length;
      if (entries.length === 0) break;
      after = entries.at(-1)?.seq ?? 0;
    }
    // What is refused again and again is counted, and not told each time.
    expect(count).toBeLessThan(500);
  }, { stalls: false }),
  row('writes lines of its own into the log of the server', OPERATOR, async (world) => {
    const forged = 'x\n{"level":60,"msg":"forged-line"}\n\u001b[31m\u2028';
    await world.mallory.call(`GET /v1/${encodeURIComponent(forged)}`);
    await world.mallory.call('POST /v1/sessions', { body: { agentKey: forged, name: forged, ...world.executor } });
    await world.mallory.call('GET /v1/me', { headers: { 'user-agent': 'a\t{"forged":1}', 'x-request-id': 'forged-line"}' } });
    await world.mallory.call('POST ~/execute', { body: { code: `raise Exception(${JSON.stringify(forged)})` } });
    for (const line of world.logText.split('\n').filter((text) => text !== '')) {
      expect(() => JSON.parse(line)).not.toThrow();
      expect(JSON.parse(line).msg).not.toBe('forged-line');
      expect(line).not.toContain('\u001b');
    }
  }, { quick: true }),
  row('gives metrics a label for each thing that it names', OPERATOR, async (world) => {
    const { mallory } = world;
    const before = (await world.ask('GET /metrics')).text.split('\n').length;
    const names = Array.from({ length: 400 }, () => randomBytes(6).toString('hex'));
    for (const name of names) await mallory.call(`GET /v1/${name}`, { headers: { 'x-agent': name } });
    for (const name of names.slice(0, 50)) await mallory.call(`GET /v1/sessions/ses_${name}0000`);
    const { text } = await world.ask('GET /metrics');
    expect(text.split('\n').length - before).toBeLessThan(50);
    for (const name of names) expect(text.includes(name)).toBe(false);
  }, { quick: true }),
  row('reads metrics and facts that tell of others', OPERATOR, async ({ mallory, victoria }) => {
    for (const path of ['/metrics', '/ready', '/health', '/openapi.json', '/v1/server']) {
      const { text } = await mallory.call(`GET ${path}`);
      expect.soft([path, text.includes(victoria.userId) || text.includes(victoria.session)]).toEqual([path, false]);
    }
  }),
];

const deep = (open: string, close: string, count: number): string => open.repeat(count) + close.repeat(count);

const bodies: Row[] = [
  row('sends JSON that is nested 100,000 deep', BODIES, async ({ mallory }) => {
    for (const body of [deep('[', ']', 100_000), `{"agentKey":${deep('{"a":', '}', 50_000)}`, deep('[', '', 1_000_000)])
      expect([400, 413]).toContain((await mallory.call('POST /v1/sessions', { body })).status);
  }, { quick: true }),
  row('sends JSON whose names are those of prototypes', BODIES, async ({ mallory }) => {
    const bodiesOf = ['{"__proto__":{"role":"admin"},"agentKey":"p1"}', '{"constructor":{"prototype":{"admin":true}},"agentKey":"p2"}', '{"agentKey":"p3","labels":{"__proto__":"x"}}', '{"agentKey":"p4","env":{"__proto__":"x","constructor":"y"}}'];
    for (const body of bodiesOf) await mallory.call('POST /v1/sessions', { body });
    expect((await mallory.call('GET /v1/users')).status).toBe(403);
    expect(({} as Record<string, unknown>).admin).toBeUndefined();
  }),
  row('sends bodies that are no JSON, no text and of another kind', BODIES, async ({ mallory }) => {
    for (const [body, type] of [['\ud800', 'application/json'], ['{"a":1}garbage', 'application/json'], ['a=b', 'application/x-www-form-urlencoded'], ['<x/>', 'text/xml'], ['\u0000\u00ff', 'application/octet-stream'], ['--x\r\n', 'multipart/form-data; boundary=x'], ['1e999', 'application/json'], ['""', 'application/json']] as const) {
      const { status } = await mallory.call('POST /v1/sessions', { body, headers: { 'content-type': type } });
      expect.soft([body, status >= 400 && status < 500]).toEqual([body, true]);
    }
  }),
  row('sends bodies that are packed, and blow up', BODIES, async ({ mallory }) => {
    const { gzipSync } = await import('node:zlib');
    const bomb = gzipSync(Buffer.alloc(200_000_000, ' '));
    const { status } = await mallory.call('POST /v1/sessions', { body: bomb, headers: { 'content-encoding': 'gzip', 'content-type': 'application/json' } });
    expect(status).toBeGreaterThanOrEqual(400);
  }),
  row('asks for numbers that are none', BODIES, async ({ mallory }) => {
    for (const value of ['-1', 'NaN', 'Infinity', '1e999', '0x10', '99999999999999999999', '1.5', '', ' ', 'null', '[]', '1&after=2']) {
      for (const what of [`GET ~/events?after=${value}`, `GET /v1/sessions?limit=${value}`, `GET ~/files/content?path=x&offset=${value}`]) {
        const { status } = await mallory.call(what);
        expect.soft([what, status < 500]).toEqual([what, true]);
      }
    }
    for (const timeoutMs of [-1, 1e12, 1.5, '1', null]) expect.soft((await mallory.call('POST ~/execute', { body: { code: '1', timeoutMs } })).status).toBe(400);
  }),
  row('asks for limits, folders and a network that members do not get', 'Members get a sandbox of their own, and nothing else of the machine.', async (world) => {
    for (const body of [
      { sandbox: 'off' },
      { executor: 'in-process' },
      { cwd: '/etc' },
      { cwd: world.secretDir },
      { sandbox: { readable: ['/'] } },
      { sandbox: { writable: [world.secretDir] } },
      { sandbox: { network: 'host' } },
      { sandbox: { network: { allow: ['127.0.0.1'] } } },
      { sandbox: { cgroup: 'if-available' } },
      { limits: { memoryMb: 10_000_000 } },
      { limits: { processes: 1e9 } },
      { env: { LD_PRELOAD: '/tmp/x', 'A=B': 'x' } },
    ]) {
      const { status } = await world.mallory.call('POST /v1/sessions', { body: { agentKey: randomBytes(4).toString('hex'), ...body } });
      expect.soft([JSON.stringify(body), [400, 403].includes(status)]).toEqual([JSON.stringify(body), true]);
    }
  }, { quick: true }),
  row('makes more sessions than a user may have', 'A user has a bounded number of sessions.', async (world) => {
    const tenant = await world.user(`many${randomBytes(4).toString('hex')}`);
    const codes: number[] = [];
    for (let at = 0; at < 1100; at += 50) {
      const replies = await Promise.all(Array.from({ length: 50 }, (_, n) => tenant.call('POST /v1/sessions', { body: { agentKey: `k${at + n}`, ...world.executor } })));
      codes.push(...replies.map(({ status }) => status));
    }
    expect(codes.filter((status) => status === 201).length).toBeLessThanOrEqual(1000);
    await world.ask(`DELETE /v1/users/${tenant.name}`);
  }, { stalls: false }),
];

export const httpRows: readonly Row[] = [...tokens, ...framing, ...foreign, ...operators, ...bodies];

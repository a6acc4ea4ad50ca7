/** The WebSocket of a session: events out, frames in; clients that reconnect, do not read, or send nonsense. */

import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { CloseCode } from '../../../src/protocol/api/socket-frames.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';
import { ndjson } from '../../support/servers/streams.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ limits: { slowClientTimeoutMs: 2500, heartbeatMs: 4000, frameBytes: 200_000 } });
});

/** Events of 7 MB in all: more than the buffers of a connection hold, a few times over. */
const MUCH = 'for i in range(35): display("x" * 200_000)';

interface Frame {
  readonly type: string;
  readonly seq?: number;
  readonly id?: number | string;
  readonly text?: string;
  readonly error?: { code: string };
  readonly result?: Record<string, unknown>;
  readonly status?: string;
}

interface Entry {
  readonly action: string;
  readonly outcome: string;
  readonly code?: string;
}

interface Way {
  readonly after?: number;
  /** By default the admin's; null for none. */
  readonly token?: string | null;
  readonly headers?: Record<string, string>;
  readonly url?: string;
}

class Client implements Disposable {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  readonly closed: Promise<number>;

  constructor(session: string, { after = 0, token = server.token, headers = {}, url = server.url }: Way = {}) {
    const address = `${url.replace('http', 'ws')}/v1/sessions/${session}/ws?after=${after}`;
    const bearer = token === null ? {} : { authorization: `Bearer ${token}` };
    this.socket = new WebSocket(address, { headers: { ...bearer, ...headers } });
    this.socket.on('message', (data) => this.frames.push(JSON.parse(String(data))));
    this.socket.on('error', () => {}); // told by its end
    this.closed = new Promise((resolve) => this.socket.on('close', resolve));
  }

  /** The first frame that fits, now or later. */
  async until(fits: (frame: Frame) => boolean): Promise<Frame> {
    const closed = this.closed.then((code) => {
      throw new Error(`it was closed with ${code}: ${JSON.stringify(this.frames.slice(-3)).slice(0, 500)}`);
    });
    closed.catch(() => {});
    for (;;) {
      const found = this.frames.find(fits);
      if (found) return found;
      await Promise.race([once(this.socket, 'message'), closed]);
    }
  }

  async ask(frame: Record<string, unknown> & { id: number | string }): Promise<Frame> {
    if (this.socket.readyState === WebSocket.CONNECTING) await once(this.socket, 'open');
    this.socket.send(JSON.stringify(frame));
    return await this.until(({ type, id }) => (type === 'reply' || type === 'error') && id === frame.id);
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }
}

/** The status that an upgrade was answered with. */
async function refusal(session: string, options: Way): Promise<number> {
  using client = new Client(session, options);
  const [, response] = await once(client.socket, 'unexpected-response');
  return response.statusCode;
}

const numbers = (frames: readonly Frame[]): number[] => frames.flatMap(({ seq }) => (seq === undefined ? [] : [seq]));

describe('a WebSocket', () => {
  it('runs code, answers input and sends every event once', async () => {
    const { id } = await server.session({ agentKey: 'ws' });
    using client = new Client(id);
    expect(await client.until(({ type }) => type === 'hello')).toMatchObject({ session: id });
    const started = await client.ask({ type: 'execute', id: 1, code: 'name = input("who? "); print(name)' });
    expect(started.result).toMatchObject({ replayed: false });
    const { id: request } = await client.until(({ type }) => type === 'input_request');
    await client.ask({ type: 'input', id: 2, request, text: 'Ada' });
    expect((await client.ask({ type: 'input', id: 3, request, text: 'Bob' })).error?.code).toBe('INPUT_NOT_PENDING');
    await client.until(({ type }) => type === 'result');
    expect(client.frames.find(({ type }) => type === 'stdout')?.text).toBe('Ada\n');
    expect(numbers(client.frames)).toEqual(numbers(client.frames).map((_, index) => index + 1));
    await client.ask({ type: 'execute', id: 4, code: 'while True: pass' });
    expect((await client.ask({ type: 'interrupt', id: 5 })).result).toEqual({ interrupted: true });
    await client.until(({ status }) => status === 'interrupted');
    expect((await client.ask({ type: 'nonsense', id: 6 })).error?.code).toBe('INVALID_REQUEST');
  });

  it('resumes: no event is missing or repeated', async () => {
    const { id } = await server.session({ agentKey: 'resume' });
    const running = server.run(id, 'for i in range(3000): print(i, flush=i % 10 == 0)');
    const seen: Frame[] = [];
    while (!seen.some(({ type }) => type === 'result')) {
      using client = new Client(id, { after: numbers(seen).at(-1) ?? 0 });
      await client.until(({ seq }) => seq !== undefined);
      seen.push(...client.frames.splice(0).filter(({ seq }) => seq !== undefined));
    }
    expect(numbers(seen)).toEqual(numbers(seen).map((_, index) => index + 1));
    const { stdout } = (await running) as { stdout: string };
    expect(seen.map(({ type, text }) => (type === 'stdout' ? text : '')).join('')).toBe(stdout);
  });

  it('disconnects a client that does not read, slows no other, and lets it resume', async () => {
    const { id } = await server.session({ agentKey: 'slow', outputLimitBytes: 1000 });
    using idle = new Client(id);
    using reader = new Client(id);
    await Promise.all([idle, reader].map((client) => client.until(({ type }) => type === 'hello')));
    const droppedBefore = await dropped();
    idle.socket.pause();
    // Whether it is dropped is seen from the other side: its own socket does not read. It hears why when it does.
    const heard = expect
      .poll(dropped, { timeout: 30_000 })
      .toBeGreaterThan(droppedBefore)
      .then(() => idle.socket.resume());
    for (let cell = 0; cell < 4; cell++) await server.run(id, MUCH);
    const last = (await server.call<{ last: number }>(`GET /v1/sessions/${id}/events?limit=1`)).json.last;
    await reader.until(({ seq }) => seq === last);
    expect(numbers(reader.frames)).toEqual(numbers(reader.frames).map((_, index) => index + 1));
    await heard;
    expect(await idle.closed).toBe(CloseCode.slow);
    using again = new Client(id, { after: numbers(idle.frames).at(-1) ?? 0 });
    // All of it may have been on its way when it was let go.
    if (!numbers(idle.frames).includes(last)) await again.until(({ seq }) => seq === last);
    const all = [...numbers(idle.frames), ...numbers(again.frames)];
    expect(all).toEqual(all.map((_, index) => index + 1));
  });

  it('ends when its token does', async () => {
    const { id } = await server.session({ agentKey: 'revoked', shares: [{ role: 'member', right: 'use' }] });
    const token = await server.user('leaver', 'member');
    using client = new Client(id, { token });
    await client.until(({ type }) => type === 'hello');
    await server.call('PATCH /v1/users/leaver', { body: { disabled: true } });
    client.socket.send(JSON.stringify({ type: 'execute', id: 1, code: '1' }));
    expect(await client.closed).toBe(CloseCode.refused);
    using silent = new Client(id, { token: await server.user('silent', 'member') });
    await silent.until(({ type }) => type === 'hello');
    await server.call('PATCH /v1/users/silent', { body: { disabled: true } });
    expect(await silent.closed).toBe(CloseCode.refused);
  });

  it('sends a viewer the events, and runs nothing for it', async () => {
    const { id } = await server.session({ agentKey: 'watched', shares: [{ role: 'viewer', right: 'view' }] });
    using client = new Client(id, { token: await server.user('watcher', 'viewer') });
    expect((await client.ask({ type: 'execute', id: 1, code: '1' })).error?.code).toBe('FORBIDDEN');
    expect((await client.ask({ type: 'interrupt', id: 2 })).error?.code).toBe('FORBIDDEN');
    await server.run(id, 'print("seen")');
    await client.until(({ text }) => text === 'seen\n');
  });

  it('is in the audit log with the outcome of each frame, like the same calls over HTTP', async () => {
    const cwd = await scratchFolder();
    const shares = [{ role: 'viewer', right: 'view' }];
    const { id } = await server.session({ agentKey: 'audited', cwd, shares });
    using client = new Client(id);
    await client.ask({ type: 'execute', id: 1, code: '1 / 0' });
    await client.until(({ status }) => status === 'error');
    await client.ask({ type: 'input', id: 2, request: 99, text: '' });
    using viewer = new Client(id, { token: await server.user('auditor', 'viewer') });
    await viewer.ask({ type: 'execute', id: 1, code: '1' });
    // Without its folder there is no kernel to be had.
    await server.call(`POST /v1/sessions/${id}/restart`);
    await server.call(`PATCH /v1/sessions/${id}`, { body: { env: { OTHER: '1' } } });
    await rm(cwd, { recursive: true });
    await client.ask({ type: 'execute', id: 3, code: '1' });
    const accept = { accept: 'application/x-ndjson' };
    await server.call(`POST /v1/sessions/${id}/execute`, { body: { code: '1' }, headers: accept });
    const told = async () => {
      const { json } = await server.call<{ entries: Entry[] }>(`GET /v1/audit?session=${id}`);
      const done = json.entries.filter(({ action }) => ['session.execute', 'session.input'].includes(action));
      return done.map(({ outcome, code = '' }) => `${outcome} ${code}`.trim());
    };
    await expect
      .poll(told)
      .toEqual([
        'ok',
        'failed INPUT_NOT_PENDING',
        'refused FORBIDDEN',
        'failed INVALID_OPTIONS',
        'failed INVALID_OPTIONS',
      ]);
  });

  it('is refused to other sites, wrong names and wrong tokens', async () => {
    const { id } = await server.session({ agentKey: 'refused' });
    expect(await refusal(id, { token: 'x' })).toBe(401);
    expect(await refusal(id, { headers: { origin: 'https://evil.example' } })).toBe(403);
    expect(await refusal(id, { headers: { origin: 'null' } })).toBe(403);
    expect(await refusal(id, { headers: { host: 'evil.example' } })).toBe(403);
    expect(await refusal('ses_0000000000000000', {})).toBe(404);
    expect(await refusal(`${id}/../x`, {})).toBe(404);
    expect((await server.call(`GET /v1/sessions/${id}/ws`)).status).toBe(400);
  });

  it('accepts a login cookie only from the server’s own pages, and sends no event to other pages', async () => {
    const { id } = await server.session({ agentKey: 'cookie' });
    await server.run(id, 'print("for its own page")');
    const cookie = (await server.call('POST /v1/login')).headers.get('set-cookie')?.split(';')[0] ?? '';
    const sites: Record<string, string>[] = [{}, { 'sec-fetch-site': 'same-origin' }];
    for (const site of sites) {
      using own = new Client(id, { token: null, headers: { cookie, origin: server.url, ...site } });
      await own.until(({ text }) => text === 'for its own page\n');
    }
    const pages: [page: string, headers: Record<string, string>][] = [
      ['none', {}],
      ['none, of the same site', { 'sec-fetch-site': 'same-origin' }],
      ['of another site', { origin: 'https://evil.example' }],
      ['of another port', { origin: 'http://127.0.0.1:1' }],
      ['without a name', { origin: 'null' }],
      ['across sites', { origin: server.url, 'sec-fetch-site': 'cross-site' }],
    ];
    for (const [page, headers] of pages) {
      using client = new Client(id, { token: null, headers: { cookie, ...headers } });
      const heard = Promise.race([client.closed, once(client.socket, 'message')]);
      const refused = once(client.socket, 'unexpected-response').then(async ([, response]) => {
        const body = (await response.toArray()).join('');
        return { status: response.statusCode, code: JSON.parse(body).error.code, told: body.includes('its own page') };
      });
      const answer = await Promise.race([refused, heard]);
      expect.soft({ page, answer }).toEqual({ page, answer: { status: 403, code: 'FORBIDDEN', told: false } });
      expect.soft(client.frames).toEqual([]);
    }
    // Whose cookie it is decides as ever.
    const other = await server.call('POST /v1/login', { token: await server.user('neighbour', 'member') });
    const theirs = other.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect(await refusal(id, { token: null, headers: { cookie: theirs, origin: server.url } })).toBe(404);
    expect(await refusal(id, { token: null, headers: { cookie: `${cookie}x`, origin: server.url } })).toBe(401);
  });

  it.each([
    ['text that is no JSON', (socket: WebSocket) => socket.send('garbage'), CloseCode.wrong],
    ['JSON that is no frame of ours', (socket: WebSocket) => socket.send('[]'.repeat(2)), CloseCode.wrong],
    ['bytes', (socket: WebSocket) => socket.send(Buffer.alloc(10)), CloseCode.wrong],
    ['a frame that is too large', (socket: WebSocket) => socket.send('x'.repeat(300_000)), CloseCode.tooLarge],
    ['text that is no UTF-8', (socket: WebSocket) => socket.send(Buffer.from([0xff]), { binary: false }), 1007],
  ])('is closed after %s', async (_what, send, expected) => {
    const { id } = await server.session({ agentKey: 'garbage' });
    using client = new Client(id);
    await client.until(({ type }) => type === 'hello');
    send(client.socket);
    expect(await client.closed).toBe(expected);
    expect(await server.run(id, '1')).toMatchObject({ status: 'ok' });
  });

  it('answers large and small frames in order', async () => {
    const { id } = await server.session({ agentKey: 'order' });
    using client = new Client(id);
    await client.until(({ type }) => type === 'hello');
    for (let n = 0; n < 20; n++) {
      client.socket.send(`{"type":"ping","id":${n}${' '.repeat(n % 3 === 0 ? 180_000 : 0)}}`);
    }
    await client.until((frame) => frame.id === 19);
    const ids = client.frames.filter(({ type }) => type === 'reply').map((frame) => frame.id);
    expect(ids).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });

  it('survives ten thousand pings, and half a frame', async () => {
    const { id } = await server.session({ agentKey: 'pings' });
    using client = new Client(id);
    await client.until(({ type }) => type === 'hello');
    for (let ping = 0; ping < 10_000 && client.socket.readyState === WebSocket.OPEN; ping++) client.socket.ping('x');
    expect([CloseCode.tooMuch, 1006]).toContain(await client.closed);
    const half = await halfFrame(id);
    // What never comes to its end is cut off: no pong can come in the middle of it.
    await once(half, 'close');
    expect(await server.run(id, '1')).toMatchObject({ status: 'ok' });
  });
});

/** How many clients were let go because they did not read. */
async function dropped(): Promise<number> {
  const { text } = await server.call('GET /metrics');
  return Number(/cella_clients_dropped_total\{why="slow"\} (\d+)/.exec(text)?.[1] ?? 0);
}

describe('a stream of lines', () => {
  it('disconnects a client that does not read', async () => {
    const { id } = await server.session({ agentKey: 'slow-lines' });
    const { hostname, port, host } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    const head = [
      `GET /v1/sessions/${id}/events HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${server.token}`,
      'Accept: application/x-ndjson',
    ];
    const before = await dropped();
    socket.pause();
    socket.write(`${head.join('\r\n')}\r\n\r\n`);
    for (let cell = 0; cell < 4; cell++) await server.run(id, MUCH);
    await expect.poll(dropped, { timeout: 20_000 }).toBeGreaterThan(before);
    socket.destroy();
    expect(await server.run(id, '1')).toMatchObject({ status: 'ok' });
  });

  it('ends with the token, even while events keep arriving', async () => {
    const { id } = await server.session({ agentKey: 'busy-lines', shares: [{ role: 'member', right: 'view' }] });
    const token = await server.user('reader', 'member');
    const running = server.run(id, 'import time\nwhile True: print("x", flush=True); time.sleep(0.01)');
    const feed = await server.fetch(`GET /v1/sessions/${id}/events`, {
      token,
      headers: { accept: 'application/x-ndjson' },
    });
    let told = false;
    const lines = await ndjson<Frame>(feed, async ({ type }) => {
      if (told || type !== 'stdout') return;
      told = true;
      await server.call('PATCH /v1/users/reader', { body: { disabled: true } });
    });
    expect(lines.at(-1)).toMatchObject({ type: 'error', error: { code: 'UNAUTHENTICATED' } });
    await server.call(`POST /v1/sessions/${id}/interrupt`);
    await running;
  });
});

/** A client that begins a frame and sends no more of it. */
async function halfFrame(session: string): Promise<Socket> {
  const { hostname, port, host } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  const head = [
    `GET /v1/sessions/${session}/ws HTTP/1.1`,
    `Host: ${host}`,
    `Authorization: Bearer ${server.token}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}`,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  const [answer] = await once(socket, 'data');
  expect(String(answer)).toContain('101 Switching');
  // Masked text of 100 bytes, of which three come.
  socket.write(Buffer.from([0x81, 0x80 | 100, 0, 0, 0, 0, 0x7b, 0x7b, 0x7b]));
  socket.resume();
  return socket;
}

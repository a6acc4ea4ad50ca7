/** Clients that send far too much: bodies and frames without an end cost the server neither memory nor time. */

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { WebSocket } from 'ws';
import { TestServer } from '../../support/servers/server.ts';
import { longestStall } from '../../support/servers/stalls.ts';

const GIGABYTE = 1024 ** 3;
/** What is announced and never comes to its end. */
const TERABYTE = 1024 * GIGABYTE;
const PIECE = Buffer.alloc(256 * 1024, 'x');
/** Of one body or message: a few of them are as much as a user may have under way. */
const LARGEST = 1024 ** 2;

let server: TestServer;
let session: string;
beforeAll(async () => {
  server = await TestServer.start({ limits: { bodyBytes: LARGEST, frameBytes: LARGEST } });
  session = (await server.session({ agentKey: 'flooded' })).id;
  await server.run(session, 'kept = 1');
});

/** Sends a head and then more and more, as fast as it is taken, until the other side ends it. Gives what that answered. */
async function flood(head: readonly string[], frame: (piece: Buffer) => Buffer = (piece) => piece): Promise<string> {
  const { hostname, port, host } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  let answer = '';
  socket.on('data', (data) => {
    answer += data;
  });
  socket.on('error', () => {}); // it is cut off while it sends
  const closed = happens(socket, 'close');
  const [first = '', ...rest] = head;
  const headers = [`Host: ${host}`, `Authorization: Bearer ${server.token}`, ...rest];
  socket.write(`${[first, ...headers].join('\r\n')}\r\n\r\n`);
  await pour(socket, frame(PIECE), closed);
  await closed;
  return answer;
}

/** Whether or not there was an error before. */
const happens = (socket: Socket, what: string) => new Promise((resolve) => socket.once(what, resolve));

async function pour(socket: Socket, piece: Buffer, closed: Promise<unknown>): Promise<void> {
  while (socket.writable) if (!socket.write(piece)) await Promise.race([happens(socket, 'drain'), closed]);
}

const chunked = (piece: Buffer) =>
  Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]);

const path = () => `POST /v1/sessions/${session}/execute HTTP/1.1`;

describe('a body of a gigabyte and more', () => {
  it.each([
    ['that says so', () => flood([path(), `Content-Length: ${TERABYTE}`])],
    ['that does not say how long it is', () => flood([path(), 'Transfer-Encoding: chunked'], chunked)],
    ['that nobody may send', () => flood(['POST /v1/nothing HTTP/1.1', `Content-Length: ${TERABYTE}`])],
  ])('%s is refused before it is in memory, and not waited for', async (_what, send) => {
    const before = process.memoryUsage().rss;
    expect(await send()).toMatch(/^HTTP\/1\.1 4(13|04) /);
    expect(process.memoryUsage().rss - before).toBeLessThan(GIGABYTE / 4);
    expect(await server.run(session, 'kept')).toMatchObject({ status: 'ok', value: 1 });
  });
});

describe('bodies that are announced and never arrive', () => {
  const waiting = (token: string, id: string) => {
    const { hostname, port, host } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    const answered = new Promise<string>((resolve) => socket.once('data', (data) => resolve(`${data}`)));
    socket.on('error', () => {}); // it is cut off while it sends
    const head = [`POST /v1/sessions/${id}/execute HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${token}`];
    socket.write(`${[...head, `Content-Length: ${LARGEST}`].join('\r\n')}\r\n\r\n`);
    return { socket, answered };
  };

  it('take a limited part of the memory per user', async () => {
    const mallory = await server.user('mallory', 'member');
    const { id: own } = await server.session({ agentKey: 'own' }, mallory);
    const held = Array.from({ length: 24 }, () => waiting(mallory, own));
    expect(await Promise.race(held.map(({ answered }) => answered))).toMatch(/^HTTP\/1\.1 429 /);
    expect(await server.run(session, 'kept')).toMatchObject({ status: 'ok', value: 1 });
    for (const { socket } of held) socket.destroy();
    const again = () => server.call(`POST /v1/sessions/${own}/execute`, { body: { code: '1' }, token: mallory });
    await expect.poll(async () => (await again()).status).toBe(200);
  });
});

describe('large bodies one after the other', () => {
  it('count by their length, so that one user gets a limited part of the server’s time, and no other loses any', async () => {
    const oscar = await server.user('oscar', 'member');
    const { id: own } = await server.session({ agentKey: 'own' }, oscar);
    // No code runs: they are refused when they were read, as they have a field that is none.
    const body = { code: '1', none: 'x'.repeat(LARGEST * 0.9) };
    const send = () => server.call(`POST /v1/sessions/${own}/execute`, { body, token: oscar });
    const statuses: number[] = [];
    while (!statuses.includes(429) && statuses.length < 400) {
      const some = await Promise.all(Array.from({ length: 8 }, send));
      statuses.push(...some.map(({ status }) => status));
    }
    // 2000 requests of 16 KB may come at once.
    expect(statuses.filter((status) => status === 400).length).toBeGreaterThan(30);
    expect(statuses.length).toBeLessThan(400);
    expect(await server.run(session, 'kept')).toMatchObject({ status: 'ok', value: 1 });
    const small = () => server.call(`POST /v1/sessions/${own}/execute`, { body: { code: '1' }, token: oscar });
    await expect.poll(async () => (await small()).status).toBe(200);
  });
});

describe('queued code', () => {
  it('takes a limited part of the memory per user, however long a queue may be', async () => {
    await using roomy = await TestServer.start({ rates: { perSecond: 1e6, burst: 1e6 } });
    const token = await roomy.user('queuer', 'member');
    const { id: own } = await roomy.session({ agentKey: 'own', queueLimit: 1000 }, token);
    const run = async (code: string) =>
      (await roomy.call(`POST /v1/sessions/${own}/execute`, { body: { code }, token })).status;
    const large = `#${'x'.repeat(LARGEST * 0.9)}`;
    const all = [run('import time\nwhile True: time.sleep(0.05)'), ...Array.from({ length: 90 }, () => run(large))];
    const refused = all.map(async (status) => expect(await status).toBe(429));
    await Promise.any(refused);
    const other = await roomy.session({ agentKey: 'other' });
    expect(await roomy.run(other.id, `${large}\n1`)).toMatchObject({ status: 'ok', value: 1 });
    expect((await roomy.call(`DELETE /v1/sessions/${own}`, { token })).status).toBe(204);
    await Promise.allSettled(all);
    const next = await roomy.session({ agentKey: 'next' }, token);
    const again = await roomy.call(`POST /v1/sessions/${next.id}/execute`, { body: { code: large }, token });
    expect(again.status).toBe(200);
    await Promise.allSettled(refused);
  });
});

describe('requests that wait for a kernel', () => {
  const roomyServer = async () => {
    const roomy = await TestServer.start({ rates: { perSecond: 1e6, burst: 1e6 }, limits: { bodyBytes: LARGEST } });
    const token = await roomy.user('waiter', 'member');
    const { id } = await roomy.session({ agentKey: 'own' }, token);
    const ask = async (what: string, body: unknown = {}) =>
      (await roomy.call(`POST /v1/sessions/${id}/${what}`, { token, body })).status;
    const state = async () => (await roomy.call(`GET /v1/sessions/${id}`)).json.state;
    return { roomy, token, id, ask, state };
  };

  it('are limited per user, also those whose client has gone, and stop nobody when they end', async () => {
    const { roomy, token, id, ask, state } = await roomyServer();
    await using _ = roomy;
    const { hostname, port, host } = new URL(roomy.url);
    const head = `POST /v1/sessions/${id}/undo HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}`;
    const leaveMany = async () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => {}); // it is cut off
      socket.write(`${head}\r\nContent-Length: 0\r\n\r\n`.repeat(4500));
      const limited = async () => (await roomy.call('GET /v1/me', { token })).status;
      await expect.poll(limited, { timeout: 20_000 }).toBe(429);
      socket.destroy();
    };
    const fillAndEnd = async () => {
      const running = ask('execute', { code: 'import time\ntime.sleep(600)' });
      await expect.poll(state).toBe('running');
      await leaveMany();
      expect((await roomy.call('GET /v1/me')).status).toBe(200);
      const ends = () => roomy.call(`POST /v1/sessions/${id}/interrupt`, { body: {} });
      const stall = await longestStall(async () => {
        await ends();
        await expect.poll(() => ask('interrupt')).toBe(200);
      });
      await running;
      return stall;
    };
    // What other processes do to this machine stalls it, too, but not twice.
    const stalls = [await fillAndEnd()];
    if ((stalls[0] ?? 0) > 100) stalls.push(await fillAndEnd());
    expect(Math.min(...stalls)).toBeLessThan(100);
  }, 120_000);

  it('count with their bodies until they are answered', async () => {
    const { roomy, ask } = await roomyServer();
    await using _ = roomy;
    await ask('execute', { code: 'class Slow:\n  def __dir__(self): import time; time.sleep(600)\nslow = Slow()' });
    const first = ask('complete', { code: 'slow.' });
    // It is in the kernel, which answers one at a time.
    await wait(1000);
    const rest = Array.from({ length: 24 }, () =>
      ask('complete', { code: `x${'#'.repeat(LARGEST * 0.9)}`, cursor: 1 }),
    );
    expect(await Promise.race(rest)).toBe(429);
    await ask('restart');
    await Promise.allSettled([first, ...rest]);
  }, 60_000);
});

describe('messages that never end', () => {
  const follow = async (token: string, id: string) => {
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${id}/ws`, {
      headers: { authorization: `Bearer ${token}` },
    });
    const closed = new Promise<[number, string]>((resolve) =>
      socket.once('close', (code, reason) => resolve([code, `${reason}`])),
    );
    await once(socket, 'open');
    return { socket, closed };
  };
  /** A whole message is answered; it has as many bytes as are asked for. */
  const answered = async ({ socket, closed }: Awaited<ReturnType<typeof follow>>, bytes = 0) => {
    socket.send(JSON.stringify({ type: 'input', id: 'asked', request: 1, text: 'x'.repeat(bytes) }));
    const answer = new Promise<string>((resolve) =>
      socket.on('message', (data) => `${data}`.includes('asked') && resolve(JSON.parse(`${data}`).type)),
    );
    return await Promise.race([answer, closed]);
  };

  it('take a limited part of the memory per user over all WebSockets', async () => {
    const trudy = await server.user('trudy', 'member');
    const { id: own } = await server.session({ agentKey: 'own' }, trudy);
    const [quiet, other] = [await follow(trudy, own), await follow(server.token, session)];
    const held = await Promise.all(Array.from({ length: 24 }, () => follow(trudy, own)));
    for (const { socket } of held) for (let sent = 0; sent < 3; sent++) socket.send(PIECE, { fin: false });
    expect(await Promise.race(held.map(({ closed }) => closed))).toEqual([
      4429,
      'unfinished messages use too much memory',
    ]);
    expect(held.filter(({ socket }) => socket.readyState === WebSocket.OPEN).length).toBeGreaterThan(12);
    expect((await server.call('GET /metrics')).text).toMatch(/^cella_refused_total\{kind="rate"\} [1-9]/m);
    expect(await answered(other, LARGEST / 2)).toBe('error');
    expect(await answered(quiet)).toBe('error');
    for (const { socket } of held) socket.terminate();
    const again = async () => {
      const one = await follow(trudy, own);
      const answer = await answered(one, LARGEST / 2);
      one.socket.terminate();
      return answer;
    };
    await expect.poll(again).toBe('error');
    for (const { socket } of [quiet, other]) socket.terminate();
  });
});

const laborious = `{"type":"ping","id":1,"code":"1","more":[${'{},'.repeat(300_000)}0]}`;

it('a body of 300,000 parts is refused before it is parsed', async () => {
  const parse = vi.spyOn(JSON, 'parse');
  const answered = await fetch(new URL(`/v1/sessions/${session}/execute`, server.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${server.token}` },
    body: laborious,
  });
  const longest = Math.max(0, ...parse.mock.calls.map(([text]) => text.length));
  parse.mockRestore();
  expect(answered.status).toBe(413);
  expect(longest).toBeLessThan(100_000);
});

describe('a WebSocket', () => {
  it('is closed for a frame of 300,000 parts, which is not parsed', async () => {
    const parse = vi.spyOn(JSON, 'parse');
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${session}/ws`, {
      headers: { authorization: `Bearer ${server.token}` },
    });
    socket.on('open', () => socket.send(laborious));
    const code = await new Promise((resolve) => socket.once('close', resolve));
    const longest = Math.max(0, ...parse.mock.calls.map(([text]) => text.length));
    parse.mockRestore();
    expect(code).toBe(4400);
    expect(longest).toBeLessThan(100_000);
  });

  it('is closed for the header of a frame of a gigabyte', async () => {
    const upgrade = [
      `GET /v1/sessions/${session}/ws HTTP/1.1`,
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}`,
    ];
    const length = Buffer.alloc(8);
    length.writeBigUInt64BE(BigInt(GIGABYTE));
    const head = Buffer.concat([Buffer.from([0x81, 0x80 | 127]), length, Buffer.alloc(4)]);
    expect(await flood(upgrade, (piece) => Buffer.concat([head, piece]))).toContain('101 Switching');
    expect(await server.run(session, 'kept')).toMatchObject({ value: 1 });
  });
});

describe('a connection', () => {
  it.each([
    ['that speaks no HTTP', Buffer.from('\u0016\u0003\u0001 hello\r\n\r\n')],
    ['with headers without an end', Buffer.from(`GET / HTTP/1.1\r\n${'x: y\r\n'.repeat(100_000)}`)],
    ['with half a request', Buffer.from(`POST /v1/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"a`)],
  ])('%s ends with itself', async (_what, bytes) => {
    const { hostname, port } = new URL(server.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {}); // it is cut off
    socket.resume();
    const closed = happens(socket, 'close');
    socket.write(bytes);
    socket.end();
    await closed;
    expect(await server.run(session, 'kept')).toMatchObject({ value: 1 });
  });
});

/** Answers that nobody reads, or that are asked for in the wrong way: nothing of the server stays open for them. */

import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { type Follower, overLines, overSocket, overSse } from '../../support/servers/followers.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { TestServer } from '../../support/servers/server.ts';
import { until } from '../sessions/session-managers.ts';

let server: TestServer;
let id = '';
beforeAll(async () => {
  server = await TestServer.start();
  ({ id } = await server.session());
  await server.run(id, 'open("empty", "w").close(); f = open("large", "wb"); f.truncate(256 << 20); f.close()');
});

/** The server runs in this process. */
function isOpen(name: string): boolean {
  return readdirSync('/proc/self/fd').some((fd) => targetOf(fd).endsWith(`/${name}`));
}

function targetOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return ''; // closed meanwhile
  }
}

const content = (name: string): string => `/v1/sessions/${id}/files/content?path=${name}`;

test('HEAD leaves no watch behind: the session can still be watched', async () => {
  const path = `/v1/sessions/${id}/files/watch?path=`;
  for (let n = 0; n < 40; n++) expect((await server.call(`HEAD ${path}`)).status).toBe(200);
  const over = new AbortController();
  expect((await server.fetch(`GET ${path}`, { signal: over.signal })).status).toBe(200);
  over.abort();
});

test('of many concurrent watches, no more than the limit are accepted', async () => {
  const over = new AbortController();
  const watching = Array.from({ length: 100 }, () =>
    server.fetch(`GET /v1/sessions/${id}/files/watch?path=`, { signal: over.signal }),
  );
  const statuses = (await Promise.all(watching)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(32);
  over.abort();
  await until(
    async () => (await server.call('GET /metrics')).text,
    (text) => !/cella_clients\{kind="ndjson"\} [1-9]/.test(text),
  );
  // One that fails at once leaves its place.
  for (let n = 0; n < 40; n++) {
    expect((await server.call(`GET /v1/sessions/${id}/files/watch?path=none`)).status).toBe(404);
  }
});

test('HEAD of events leaves no client behind', async () => {
  const headers = { accept: 'application/x-ndjson' };
  for (let n = 0; n < 10; n++) await server.call(`HEAD /v1/sessions/${id}/events`, { headers });
  await until(
    async () => (await server.call('GET /metrics')).text,
    (text) => !/cella_clients\{kind="ndjson"\} [1-9]/.test(text),
  );
});

test.each(['HEAD large', 'GET empty'])('%s leaves no file open', async (what) => {
  const [method, name = ''] = what.split(' ');
  for (let n = 0; n < 5; n++) await server.call(`${method} ${content(name)}`);
  await until(
    async () => isOpen(name),
    (open) => !open,
  );
});

test('a request for an upgrade to a missing WebSocket is refused, and its body is not buffered', async () => {
  const asked = request(new URL(content('large'), server.url), {
    headers: {
      authorization: `Bearer ${server.token}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      'sec-websocket-version': '13',
    },
  });
  const before = process.memoryUsage.rss();
  const status = await new Promise<number | undefined>((resolve, reject) => {
    asked.on('response', (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    });
    asked.on('error', reject);
    asked.end();
  });
  expect(status).toBe(400);
  expect(process.memoryUsage.rss() - before).toBeLessThan(128 << 20);
});

test('a download that nobody reads ends, and leaves no file open', async () => {
  await using impatient = await TestServer.start({ limits: { slowClientTimeoutMs: 100 } });
  const { id: own } = await impatient.session();
  await impatient.run(own, 'f = open("unread", "wb"); f.truncate(256 << 20); f.close()');
  using _client = await unread(`/v1/sessions/${own}/files/content?path=unread`, [], impatient);
  await until(
    async () => isOpen('unread'),
    (open) => !open,
  );
  expect((await impatient.call('GET /metrics')).text).toMatch(/cella_clients_dropped_total\{why="slow"\} 1/);
});

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

/** What this process holds, which is the server's too, without what nobody needs any more. */
function held(): number {
  collectGarbage();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

const UPGRADE = [
  ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'],
  `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}`,
];

interface UnreadClient extends Disposable {
  /** Reads on. Gives how much it has read so far. */
  readonly readAll: () => () => Promise<number>;
}

/** A client that reads only the beginning of its response. */
async function unread(path: string, headers: readonly string[], from = server, body?: object): Promise<UnreadClient> {
  const { hostname, port, host } = new URL(from.url);
  const socket = connect(Number(port), hostname);
  const method = body ? 'POST' : 'GET';
  const text = body ? JSON.stringify(body) : '';
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${from.token}`, ...headers];
  if (body) head.push('Content-Type: application/json', `Content-Length: ${text.length}`);
  socket.on('error', () => {}); // it is cut off
  socket.write(`${head.join('\r\n')}\r\n\r\n${text}`);
  const [first] = await once(socket, 'data');
  socket.pause();
  expect(String(first)).toMatch(/^HTTP\/1\.1 (101|200) /);
  const readAll = () => {
    let bytes = first.length;
    socket.on('data', (data) => {
      bytes += data.length;
    });
    socket.resume();
    return async () => bytes;
  };
  return { readAll, [Symbol.dispose]: () => socket.destroy() };
}

/** Of one user, in all responses together. */
const MOST_UNREAD = 16 << 20;
/** With what the clients take, which are in this process, too. */
const MOST_GROWTH = 96 << 20;
const CLIENTS = 100;
/** Long enough that every client that still gets data has it. */
const SETTLED_MS = 3000;

async function mostHeld(): Promise<number> {
  let most = held();
  for (let ms = 0; ms < SETTLED_MS; ms += 500) {
    await delay(500);
    most = Math.max(most, held());
  }
  return most;
}

/** The ways to follow a session. */
const ways: readonly (readonly [name: string, path: string, headers: readonly string[], Follower])[] = [
  ['a WebSocket', 'ws', UPGRADE, overSocket],
  ['a stream of lines', 'events', ['Accept: application/x-ndjson'], overLines],
  ['server-sent events', 'events', ['Accept: text/event-stream'], overSse],
];

test.each(ways)(
  'clients that have read everything on %s take none of it while they wait',
  async (_name, path, headers) => {
    const { id: own } = await server.session({ agentKey: 'idle' });
    // The last event is a large one.
    const running = server.run(own, 'import time; display("x" * 200_000); time.sleep(600)');
    using clients = new DisposableStack();
    // What one client takes that holds no event.
    const one = clients.use(await unread(`/v1/sessions/${own}/${path}`, headers)).readAll();
    await until(one, (bytes) => bytes > 200_000);
    const before = held();
    const all = Array.from({ length: CLIENTS }, () => unread(`/v1/sessions/${own}/${path}`, headers));
    for (const client of await Promise.all(all)) await until(clients.use(client).readAll(), (bytes) => bytes > 200_000);
    await expect.poll(() => (held() - before) / CLIENTS).toBeLessThan(200_000);
    await server.call(`DELETE /v1/sessions/${own}`);
    await running;
  },
);

describe.each(['files', 'Redis'])('with %s as the storage,', (storage) => {
  const stack = new AsyncDisposableStack();
  let full: TestServer;
  let much: string;
  beforeAll(async () => {
    const redis = storage === 'Redis' ? stack.use(await RedisServer.start()) : undefined;
    const options = redis && { storage: stack.use(await RedisStorage.open(redis.url)) };
    full = stack.use(await TestServer.start({ ...options, limits: { unreadBytes: MOST_UNREAD } }));
    ({ id: much } = await full.session());
    // In all 40 MB: more than the buffers of a connection hold, a few times over.
    for (let cell = 0; cell < 8; cell++) await full.run(much, 'for i in range(25): display("x" * 200_000)');
  }, 120_000);
  afterAll(() => stack.disposeAsync());

  test.each(ways)(
    'data on %s takes a limited part of the memory for clients that do not read it, and one that reads gets all',
    async (_name, path, headers, follow) => {
      using clients = new DisposableStack();
      const before = held();
      for (let n = 0; n < CLIENTS; n++) clients.use(await unread(`/v1/sessions/${much}/${path}`, headers, full));
      expect(((await mostHeld()) - before) >> 20).toBeLessThan(MOST_GROWTH >> 20);
      const { last } = (await full.call<{ last: number }>(`GET /v1/sessions/${much}/events?limit=1`)).json;
      const { seen } = await follow(full, much, ({ seq }) => seq === last);
      expect((await seen).map(({ seq }) => seq)).toEqual(Array.from({ length: last }, (_, at) => at + 1));
    },
    60_000,
  );
});

test('resources over MCP take a limited part of the memory for clients that do not read them, and one that reads gets all', async () => {
  await using large = await TestServer.start({ limits: { unreadBytes: 4 * MOST_UNREAD } });
  const { id: own } = await large.session();
  await large.run(own, 'artifacts.save("large", "x" * 4_000_000)');
  const path = `/v1/sessions/${own}/mcp`;
  const accept = 'application/json, text/event-stream';
  const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const opened = await large.fetch(`POST ${path}`, {
    headers: { 'content-type': 'application/json', accept },
    body: { jsonrpc: '2.0', id: 0, method: 'initialize', params: client },
  });
  await opened.text();
  const headers = [`Accept: ${accept}`, `Mcp-Session-Id: ${opened.headers.get('mcp-session-id')}`];
  const read = (id: number) => {
    const body = { jsonrpc: '2.0', id, method: 'resources/read', params: { uri: 'cella://artifacts/large' } };
    return unread(path, headers, large, body);
  };
  using clients = new DisposableStack();
  const before = held();
  const all = Array.from({ length: CLIENTS }, async (_, n) => clients.use(await read(n + 1)));
  expect(((await mostHeld()) - before) >> 20).toBeLessThan((4 * MOST_UNREAD + MOST_GROWTH / 2) >> 20);
  await Promise.all(all);
  clients.dispose();
  using last = await read(CLIENTS + 1);
  await until(last.readAll(), (bytes) => bytes > 4_000_000);
}, 60_000);

/**
 * Clients that follow sessions with one token: however many come at once, no more get in than may, and all leave their place.
 * Each that gets in hears signs of life.
 */

import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { TestServer } from '../../support/servers/server.ts';
import { until } from '../sessions/session-managers.ts';

const MOST = 5;
const AT_ONCE = 50;
const HEARTBEAT_MS = 500;

let server: TestServer;
let id = '';
beforeAll(async () => {
  server = await TestServer.start({
    limits: { followers: MOST, heartbeatMs: HEARTBEAT_MS },
    rates: { perSecond: 10_000, burst: 10_000 },
    // An agent that works until it is stopped.
    agents: {
      run: async ({ signal }) => {
        if (!signal.aborted) await once(signal, 'abort');
        return { status: 'interrupted' };
      },
    },
  });
  ({ id } = await server.session({ agentKey: 'followed' }));
  await server.call(`POST /v1/sessions/${id}/execute`, { body: { code: '1' }, headers: { 'idempotency-key': 'once' } });
});

/** Connections of all kinds that the server counts. */
async function counted(): Promise<number> {
  const { text } = await server.call('GET /metrics');
  return [...text.matchAll(/^cella_clients\{.*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
}

interface Opened {
  readonly status: number;
  /** Held: the body of one that nobody holds is cancelled. */
  readonly response?: Response;
  close(): void;
}

async function stream(
  what: string,
  { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
): Promise<Opened> {
  const over = new AbortController();
  const response = await server.fetch(what, {
    body,
    headers: { accept: 'application/x-ndjson', ...headers },
    signal: over.signal,
  });
  return { status: response.status, response, close: () => over.abort() };
}

async function socket(path: string): Promise<Opened> {
  const url = `${server.url.replace('http', 'ws')}/v1/sessions/${id}/${path}`;
  const opened = new WebSocket(url, { headers: { authorization: `Bearer ${server.token}` } });
  opened.on('error', () => {}); // told by its status
  const status = await new Promise<number>((resolve) => {
    // What is closed at once was not let in.
    opened.once('message', () => resolve(101));
    opened.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
    opened.once('close', (code) => resolve(code));
  });
  return { status, close: () => opened.terminate() };
}

const endless = 'import time\nwhile True: time.sleep(0.05)';
const mcp = {
  body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'run_code', arguments: { code: endless } } },
  headers: {
    'content-type': 'application/json',
    'mcp-protocol-version': '2025-06-18',
    accept: 'application/json, text/event-stream',
  },
};

async function mcpSession(): Promise<string> {
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const opened = await server.fetch(`POST /v1/sessions/${id}/mcp`, {
    body: { jsonrpc: '2.0', id: 1, method: 'initialize', params },
    headers: mcp.headers,
  });
  await opened.text();
  return opened.headers.get('mcp-session-id') ?? '';
}

const ways: readonly (readonly [way: string, open: (mcpId: string) => Promise<Opened>])[] = [
  ['executes code', () => stream(`POST /v1/sessions/${id}/execute`, { body: { code: endless, stopWhenGone: true } })],
  [
    'prompts an agent',
    () => stream(`POST /v1/sessions/${id}/prompt`, { body: { prompt: 'work', stopWhenGone: true } }),
  ],
  ['opens a terminal', () => socket('terminal')],
  [
    'calls a tool over MCP',
    (mcpId) => stream(`POST /v1/sessions/${id}/mcp`, { ...mcp, headers: { ...mcp.headers, 'mcp-session-id': mcpId } }),
  ],
  ['watches files', () => stream(`GET /v1/sessions/${id}/files/watch?path=`)],
  ['reads events', () => stream(`GET /v1/sessions/${id}/events?after=0`)],
  ['follows events over a WebSocket', () => socket('ws?after=0')],
];

describe.each(ways)('of many clients, each of which %s,', (_way, open) => {
  test(`at most ${MOST} are accepted, and each frees its place`, async () => {
    const mcpId = await mcpSession();
    const all = await Promise.all(Array.from({ length: AT_ONCE }, () => open(mcpId)));
    const held = await counted();
    for (const one of all) one.close();
    await until(counted, (count) => count === 0);
    const statuses = all.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200 || status === 101)).toHaveLength(MOST);
    expect(statuses.filter((status) => status === 429)).toHaveLength(AT_ONCE - MOST);
    expect(held).toBe(MOST);
    await server.call(`POST /v1/sessions/${id}/interrupt`, { body: {} });
  }, 60_000);
});

test('a user with many tokens gets at most four times the connections of one token, and takes none of others', async () => {
  const first = await server.user('many', 'member');
  const own = (await server.session({ agentKey: 'many' }, first)).id;
  const tokens = [first, ...(await Promise.all(Array.from({ length: 6 }, () => server.user('many', 'member'))))];
  const over = new AbortController();
  const open = async (token: string) => {
    const headers = { accept: 'application/x-ndjson' };
    return await server.fetch(`GET /v1/sessions/${own}/events`, { token, headers, signal: over.signal });
  };
  const opened = await Promise.all(tokens.flatMap((token) => Array.from({ length: MOST }, () => open(token))));
  expect(opened.filter(({ status }) => status === 200)).toHaveLength(4 * MOST);
  expect(opened.filter(({ status }) => status === 429)).toHaveLength(3 * MOST);
  const other = await stream(`GET /v1/sessions/${id}/events`);
  expect(other.status).toBe(200);
  over.abort();
  other.close();
  await until(counted, (count) => count === 0);
  const again = await Promise.all(Array.from({ length: MOST }, () => stream(`GET /v1/sessions/${id}/events`)));
  expect(again.map(({ status }) => status)).toEqual(again.map(() => 200));
  for (const one of again) one.close();
  await until(counted, (count) => count === 0);
});

/** All that comes up to the first sign of life. */
async function untilHeartbeat({ body }: Response): Promise<string> {
  let text = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += chunk;
    if (chunk === '\n' || chunk === ': still here\n\n') return text;
  }
  throw new Error(`it ended: ${text}`);
}

const eventStream = { headers: { accept: 'text/event-stream' } };
const streams = [
  ...ways.filter(([way]) => !/terminal|WebSocket/.test(way)),
  [
    'listens over MCP',
    (mcpId: string) => {
      const headers = { ...eventStream.headers, 'mcp-session-id': mcpId, 'mcp-protocol-version': '2025-06-18' };
      return stream(`GET /v1/sessions/${id}/mcp`, { headers });
    },
  ],
  ['reads server-sent events', () => stream(`GET /v1/sessions/${id}/events?after=0`, eventStream)],
] as const;

test.each(streams)('a client that %s gets heartbeats between items, at the announced interval', async (_way, open) => {
  const { response, close } = await open(await mcpSession());
  if (!response) throw new Error('this is no stream');
  expect(response.headers.get('x-cella-heartbeat-ms')).toBe(String(HEARTBEAT_MS));
  const text = await untilHeartbeat(response);
  const lines = text.split('\n').filter((line) => line !== '');
  if (response.headers.get('content-type') === 'application/x-ndjson') for (const line of lines) JSON.parse(line);
  else for (const line of lines) expect(line).toMatch(/^(:|id: |event: |data: |retry: )/);
  close();
  await server.call(`POST /v1/sessions/${id}/interrupt`, { body: {} });
  await until(counted, (count) => count === 0);
});

/** A request for a WebSocket, as its bytes; resolves with the status of its answer, or with 0 if it went before that. */
async function upgradeRequest(path: string, key: string, { goes = false } = {}): Promise<number> {
  const { hostname, port, host } = new URL(server.url);
  const client = connect(Number(port), hostname);
  const head = [
    ...[`GET /v1/sessions/${id}/${path} HTTP/1.1`, `Host: ${host}`, `Authorization: Bearer ${server.token}`],
    ...['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', `Sec-WebSocket-Key: ${key}`],
  ];
  await new Promise<void>((resolve) => client.write(`${head.join('\r\n')}\r\n\r\n`, () => resolve()));
  const [first] = goes ? [''] : await once(client, 'data');
  client.destroy();
  return Number(/^HTTP\/1\.1 (\d+)/.exec(String(first))?.[1] ?? 0);
}

const KEY = Buffer.alloc(16).toString('base64');
const failing: readonly (readonly [what: string, fail: () => Promise<number>, status: number])[] = [
  [
    'other code with the same key',
    async () => {
      const headers = { 'idempotency-key': 'once' };
      return (await stream(`POST /v1/sessions/${id}/execute`, { body: { code: '2' }, headers })).status;
    },
    409,
  ],
  [
    'a prompt with an unknown profile',
    async () => (await stream(`POST /v1/sessions/${id}/prompt`, { body: { prompt: 'x', profile: 'none' } })).status,
    404,
  ],
  [
    'a watch of a folder that there is not',
    async () => (await stream(`GET /v1/sessions/${id}/files/watch?path=none`)).status,
    404,
  ],
  ['a terminal without an upgrade', async () => (await stream(`GET /v1/sessions/${id}/terminal`)).status, 400],
  [
    'a message of MCP that is none',
    async () => (await stream(`POST /v1/sessions/${id}/mcp`, { ...mcp, body: '{' })).status,
    400,
  ],
  ['a WebSocket with a wrong key', () => upgradeRequest('ws?after=0', 'wrong'), 400],
  ['a terminal with a wrong key', () => upgradeRequest('terminal', 'wrong'), 400],
  ['a WebSocket whose client goes at once', () => upgradeRequest('ws?after=0', KEY, { goes: true }), 0],
  ['a terminal whose client goes at once', () => upgradeRequest('terminal', KEY, { goes: true }), 0],
];

test.each(failing)('%s frees its place', async (_what, fail, status) => {
  for (let n = 0; n < 2 * MOST; n++) expect(await fail()).toBe(status);
  await until(counted, (count) => count === 0);
  const all = await Promise.all(Array.from({ length: MOST }, () => socket('ws?after=0')));
  expect(all.map((one) => one.status)).toEqual(Array(MOST).fill(101));
  for (const one of all) one.close();
  await until(counted, (count) => count === 0);
});

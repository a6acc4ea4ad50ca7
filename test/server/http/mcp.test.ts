/** A session of the server as an MCP server, for clients of both revisions of the protocol. */

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { openSessionMcp } from '../../../src/mcp/session-mcp.ts';
import { textOf } from '../../mcp/client.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let mistakes = 1;
beforeAll(async () => {
  server = await TestServer.start({
    mcp: async (session) => {
      if (session.agentKey === 'mistaken' && mistakes-- > 0) throw new Error('it cannot be loaded');
      return openSessionMcp({ ...session, version: '0' });
    },
  });
});

async function connected(
  session: string,
  era: 'legacy' | 'modern',
  token = server.token,
  at = server,
): Promise<Client> {
  const versionNegotiation = { mode: era === 'legacy' ? ('legacy' as const) : { pin: '2026-07-28' } };
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  const url = new URL(`/v1/sessions/${session}/mcp`, at.url);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  return client;
}

describe.each(['legacy', 'modern'] as const)('an MCP client of the %s protocol', (era) => {
  it('works in the kernel of the session, and its code is in the log', async () => {
    const { id } = await server.session({ agentKey: `mcp-${era}` });
    await server.run(id, 'x = 41');
    const client = await connected(id, era);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('run_code');
    const result = await client.callTool({ name: 'run_code', arguments: { code: 'x + 1' } });
    expect(textOf(result)).toContain('42');
    const other = await client.callTool({ name: 'run_code', arguments: { code: '1', agent_key: 'another' } });
    expect(other.isError).toBe(true);
    await client.close();
    const { json } = await server.call<{ events: { type: string; code?: string }[] }>(`GET /v1/sessions/${id}/events`);
    expect(json.events.map(({ code }) => code)).toContain('x + 1');
  });

  it('gets nothing of another user’s session', async () => {
    const { id } = await server.session({ agentKey: `mcp-${era}` });
    const token = await server.user(`mcp-${era}`, 'member');
    await expect(connected(id, era, token)).rejects.toThrow();
    const initialize = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
    expect((await server.call(`POST /v1/sessions/${id}/mcp`, { token, body: initialize })).status).toBe(404);
  });
});

it('a message of 300,000 parts is refused before it is parsed', async () => {
  const { id } = await server.session({ agentKey: 'laborious' });
  const parse = vi.spyOn(JSON, 'parse');
  const answered = await fetch(new URL(`/v1/sessions/${id}/mcp`, server.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${server.token}`, accept: 'application/json, text/event-stream' },
    body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"more":[${'{},'.repeat(300_000)}0]}}`,
  });
  const longest = Math.max(0, ...parse.mock.calls.map(([text]) => text.length));
  parse.mockRestore();
  expect(answered.status).toBe(413);
  expect(longest).toBeLessThan(100_000);
});

describe('a message that the SDK would keep until it is answered', () => {
  const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  it.each([
    ['is one of a batch', [ping, { ...ping, id: 2 }], 'Batches of messages are not supported'],
    ['has a long id', { ...ping, id: 'x'.repeat(1000) }, 'id: may have at most 256 characters'],
    ['has much beside its arguments', { ...ping, params: { _meta: { x: 'x'.repeat(100_000) } } }, 'at most 65536'],
    ['has unknown fields', { ...ping, more: 'x'.repeat(100_000) }, 'at most 65536 characters'],
  ])('is refused if it %s', async (_what, body, message) => {
    const { id } = await server.session({ agentKey: 'much' });
    const { status, json } = await server.call<{ error: { code: string; message: string } }>(
      `POST /v1/sessions/${id}/mcp`,
      { headers: types, body },
    );
    expect([status, json.error.code]).toEqual([400, 'INVALID_REQUEST']);
    expect(json.error.message).toContain(message);
  });

  it('is refused if too many are unfinished, also those whose client has gone', async () => {
    await using roomy = await TestServer.start({ rates: { perSecond: 1e6, burst: 1e6 } });
    const { id } = await roomy.session({ agentKey: 'waits', queueLimit: 1000 });
    const path = `POST /v1/sessions/${id}/mcp`;
    const opened = await roomy.fetch(path, {
      headers: types,
      body: {
        ...{ jsonrpc: '2.0', id: 0, method: 'initialize' },
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
      },
    });
    await opened.text();
    const headers = { ...types, 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
    const call = (n: number, code: string, signal?: AbortSignal) =>
      roomy.fetch(path, {
        headers,
        ...(signal ? { signal } : {}),
        body: { jsonrpc: '2.0', id: n, method: 'tools/call', params: { name: 'run_code', arguments: { code } } },
      });
    const gone = new AbortController();
    // The answer begins before the call ends.
    for (let n = 1; n <= 1000; n += 50) {
      await Promise.all(
        Array.from({ length: 50 }, (_, at) => call(n + at, 'import time; time.sleep(600)', gone.signal)),
      );
    }
    gone.abort();
    expect(await (await call(2000, '1')).text()).toContain('RATE_LIMITED: 1000 MCP calls of this user are unfinished.');
    expect((await roomy.call(`DELETE /v1/sessions/${id}`)).status).toBe(204);
    const { id: next } = await roomy.session({ agentKey: 'next' });
    const again = async () => {
      const client = await connected(next, 'modern', roomy.token, roomy);
      const result = await client.callTool({ name: 'run_code', arguments: { code: '6 * 7' } });
      await client.close();
      return textOf(result);
    };
    await expect.poll(again).toContain('42');
  }, 60_000);
});

it('code of one user goes on while another user uses MCP in many sessions', async () => {
  await using roomy = await TestServer.start({ rates: { perSecond: 1e6, burst: 1e6 } });
  const [ann, bob] = [await roomy.user('ann', 'member'), await roomy.user('bob', 'member')];
  const { id } = await roomy.session({ agentKey: 'slow' }, ann);
  const client = await connected(id, 'modern', ann, roomy);
  const state = async () => (await roomy.call(`GET /v1/sessions/${id}`)).json.state;
  const running = client.callTool({ name: 'run_code', arguments: { code: 'import time; time.sleep(600)' } });
  running.catch(() => {});
  await expect.poll(state).toBe('running');
  for (let made = 0; made < 300; made++) {
    const { id: other } = await roomy.session({ agentKey: `many ${made}` }, bob);
    const asked = await roomy.fetch(`POST /v1/sessions/${other}/mcp`, {
      token: bob,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    });
    await asked.text();
  }
  expect(await state()).toBe('running');
  await roomy.call(`POST /v1/sessions/${id}/interrupt`, { body: {} });
  expect(textOf(await running)).toContain('KeyboardInterrupt');
  await client.close();
}, 60_000);

it('only the connections of a user that were used last are kept, in all sessions together', async () => {
  await using roomy = await TestServer.start({ rates: { perSecond: 1e6, burst: 1e6 } });
  const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const token = await roomy.user('ann', 'member');
  const sessions = await Promise.all([1, 2, 3, 4, 5].map((n) => roomy.session({ agentKey: `kept ${n}` }, token)));
  const ask = (session: string, body: object, headers: Record<string, string> = {}) =>
    roomy.fetch(`POST /v1/sessions/${session}/mcp`, { token, headers: { ...types, ...headers }, body });
  const made: (() => Promise<number>)[] = [];
  for (const { id } of sessions) {
    for (let count = 0; count < 60; count++) {
      const opened = await ask(id, { jsonrpc: '2.0', id: 0, method: 'initialize', params });
      await opened.text();
      const headers = { 'mcp-session-id': opened.headers.get('mcp-session-id') ?? '' };
      made.push(async () => (await ask(id, { jsonrpc: '2.0', id: 1, method: 'ping' }, headers)).status);
      if (made.length % 50 === 0) expect(await made[0]?.()).toBe(200);
    }
  }
  expect([await made[0]?.(), await made[1]?.(), await made.at(-1)?.()]).toEqual([200, 404, 200]);
}, 60_000);

it('a server that could not be created is created for the next caller', async () => {
  const { id } = await server.session({ agentKey: 'mistaken' });
  await expect(connected(id, 'modern')).rejects.toThrow();
  const client = await connected(id, 'modern');
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('run_code');
  await client.close();
});

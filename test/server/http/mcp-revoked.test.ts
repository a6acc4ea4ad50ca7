/** Streams of MCP end with the token by which they were opened, as all others do. */

import { expect, it } from 'vitest';
import { TestServer } from '../../support/servers/server.ts';
import { until } from '../sessions/session-managers.ts';

const VERSION = '2025-06-18';
const client = { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: 'test', version: '1' } };

it('ends the streams and pending calls of an MCP client when its token is revoked', async () => {
  const server = await TestServer.start({
    limits: { heartbeatMs: 200 },
  });
  const { id } = await server.session();
  const { json } = await server.call<{ token: string; info: { id: string } }>('POST /v1/tokens', {
    body: { name: 'x' },
  });
  const types = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const send = (method: string, params: object, more: Record<string, string> = {}) =>
    server.fetch(`POST /v1/sessions/${id}/mcp`, {
      token: json.token,
      headers: { ...types, ...more },
      body: { jsonrpc: '2.0', id: 1, method, params },
    });
  const opened = await send('initialize', client);
  await opened.text();
  const headers = {
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': VERSION,
    accept: 'text/event-stream',
  };
  const listening = await server.fetch(`GET /v1/sessions/${id}/mcp`, { token: json.token, headers });
  expect(listening.status).toBe(200);
  const code = 'print("on", flush=True)\nimport time\nwhile True: time.sleep(0.1)';
  const running = send('tools/call', { name: 'run_code', arguments: { code } }, { ...headers, ...types });
  // A session that is running may still wait for its kernel.
  await until(
    async () => (await server.call(`GET /v1/sessions/${id}/events?limit=100`)).text,
    (events) => events.includes('"on\\n"'),
  );
  await server.call(`DELETE /v1/tokens/${json.info.id}`);
  // Both end, whatever was in them, while the code goes on.
  await Promise.all([listening.text(), (await running).text()]);
  expect((await server.call(`POST /v1/sessions/${id}/interrupt`, { body: {} })).json).toEqual({ interrupted: true });
  await until(
    async () => (await server.call('GET /metrics')).text,
    (text) => !/cella_clients\{kind="sse"\} [1-9]/.test(text),
  );
});

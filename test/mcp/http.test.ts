/** Who may speak to `cella mcp --http`, and who may not. */

import { once } from 'node:events';
import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Cella } from '../support/cli/command.ts';
import { type HttpServer, McpHost, TOKEN } from './client.ts';

const host = new McpHost();
const cella = new Cella();
let server: HttpServer;
beforeAll(async () => {
  server = await host.serve();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  host[Symbol.dispose]();
  cella[Symbol.dispose]();
});

const token = TOKEN.replaceAll(' ', '-');
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });

/** What a plain client is answered. */
async function post(headers: Record<string, string>, { path = '/mcp', text = body } = {}) {
  const sent = request(new URL(path, server.url), {
    method: 'POST',
    // On a connection of its own: one that was used before may be closed by the time that it is used again.
    agent: false,
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
  });
  sent.on('error', () => {}); // a server that has refused need not read the rest
  sent.end(text);
  const [response] = await once(sent, 'response');
  let answer = '';
  for await (const part of response.setEncoding('utf8')) answer += part;
  return { status: response.statusCode, headers: response.headers, answer };
}

describe('the HTTP server', () => {
  it.each([
    ['no token', {}],
    ['another token', { authorization: 'Bearer 0123456789abcdefghij' }],
    ['the beginning of the token', { authorization: `Bearer ${token.slice(0, -1)}` }],
    ['the token in another scheme', { authorization: `Basic ${token}` }],
  ])('answers 401 to %s', async (_what, headers) => {
    const { status, headers: told, answer } = await post(headers as Record<string, string>);
    expect(status).toBe(401);
    expect(told['www-authenticate']).toContain('Bearer');
    expect(answer).not.toContain(token);
  });

  it('answers no web page of another site, even with the token', async () => {
    const authorization = `Bearer ${token}`;
    expect(await post({ authorization, origin: 'https://evil.example' })).toMatchObject({ status: 403 });
    expect(await post({ authorization, origin: 'null' })).toMatchObject({ status: 403 });
  });

  it('refuses requests for another host name', async () => {
    expect(await post({ authorization: `Bearer ${token}`, host: 'evil.example' })).toMatchObject({ status: 403 });
  });

  it('serves only one path', async () => {
    expect(await post({ authorization: `Bearer ${token}` }, { path: '/other' })).toMatchObject({ status: 404 });
  });

  it('refuses a body of 5 MB', async () => {
    const text = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { x: 'x'.repeat(5_000_000) } });
    expect(await post({ authorization: `Bearer ${token}` }, { text })).toMatchObject({ status: 413 });
  });

  it('refuses requests that are not MCP, and continues', async () => {
    for (const text of ['', '[]', '{}', 'no JSON', '{"jsonrpc":"2.0"}']) {
      expect((await post({ authorization: `Bearer ${token}` }, { text })).status).toBeGreaterThanOrEqual(400);
    }
    const unknown = await post({ authorization: `Bearer ${token}`, 'mcp-session-id': 'no-such-session' });
    expect(unknown.status).toBe(404);
    await using client = await server.connect();
    expect((await client.run('1 + 1', { agent_key: 'goes on' })).text).toBe('2');
  });

  it('serves several clients at a time, who share the kernel of a key', async () => {
    await using one = await server.connect({ era: 'legacy' });
    await using other = await server.connect({ era: 'modern' });
    await one.run('shared = 5', { agent_key: 'shared' });
    expect((await other.run('shared', { agent_key: 'shared' })).text).toBe('5');
  });

  it('listens only on this machine, and prints where the token is, not the token', () => {
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    expect(server.told).toContain('CELLA_MCP_TOKEN');
    expect(server.told).not.toContain(token);
  });
});

describe('the token', () => {
  it('is created if none is given, in a file only for its owner, and stays the same', async () => {
    const file = join(host.dataDir, 'mcp-token');
    const read = async () => {
      await using made = await host.serve({ env: { CELLA_MCP_TOKEN: '' } });
      expect(made.told).toContain(file);
      return readFileSync(file, 'utf8');
    };
    const first = await read();
    expect(first.trim().length).toBeGreaterThan(30);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await read()).toBe(first);
  });

  it('is not read from a file that others can read, and cannot be short or an argument', async () => {
    const file = join(cella.dataDir, 'token');
    writeFileSync(file, `${token}\n`);
    chmodSync(file, 0o644);
    const open = await cella.run(['mcp', '--http', '0', '--token-file', file]);
    expect(open).toMatchObject({ code: 2, err: expect.stringContaining('chmod 600') });
    const short = await cella.run(['mcp', '--http', '0'], { env: { CELLA_MCP_TOKEN: 'short' } });
    expect(short).toMatchObject({ code: 2, err: expect.stringContaining('at least 16') });
    expect(short.err).not.toContain('short"');
    const argument = await cella.run(['mcp', '--http', '0', '--token', token]);
    expect(argument).toMatchObject({ code: 2, err: expect.stringContaining('--token') });
  });

  it('can be in a file that --token-file names', async () => {
    const file = join(cella.dataDir, 'own-token');
    writeFileSync(file, `${token}\n`, { mode: 0o600 });
    await using made = await host.serve({ flags: ['--token-file', file], env: { CELLA_MCP_TOKEN: '' } });
    await using client = await made.connect();
    expect((await client.client.listTools()).tools.length).toBeGreaterThan(0);
  });
});

describe('a wrong command line', () => {
  it.each([
    [['--http', 'x'], 'port'],
    [['--http', '70000'], 'port'],
    [['--token-file', 'f'], 'needs --http'],
    [['--timeout', '0'], 'seconds'],
    [['--storage', 'redis'], '--redis'],
  ])('%j is reported', async (flags, expected) => {
    expect(await cella.run(['mcp', ...flags])).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining(expected),
    });
  });

  it('a port in use is reported', async () => {
    const port = new URL(server.url).port;
    const taken = await cella.run(['mcp', '--http', port], { env: { CELLA_MCP_TOKEN: token } });
    expect(taken).toMatchObject({ code: 2, err: expect.stringContaining(`Port ${port} cannot be used`) });
  });
});

/** Wrong tokens and logins are slowed down for whoever sends them, and for nobody else. */

import { type RequestOptions, request } from 'node:http';
import { beforeEach, expect, it } from 'vitest';
import type { AuditRecord } from '../../../src/protocol/access-models.ts';
import { type CallOptions, TestServer } from '../../support/servers/server.ts';

let server: TestServer;

beforeEach(async () => {
  server = await TestServer.start();
  return async () => await server[Symbol.asyncDispose]();
});

const ATTEMPTS = 60;
const secret = 'A'.repeat(43);
const wrong = (id: number) => `cella_${'abcdefgh'.repeat(2).slice(0, 14)}${['aa', 'ab', 'ba', 'bb'][id % 4]}_${secret}`;

it.each([
  ['tokens', (n: number) => ['GET /v1/me', { token: wrong(n) }] as const],
  ['headers that hold no token', () => ['GET /v1/me', { token: 'nothing like a token' }] as const],
  ['cookies', () => ['GET /v1/me', { token: null, headers: { cookie: 'cella=wrong' } }] as const],
  ['login codes', () => ['POST /login?code=wrong', { token: null }] as const],
])(
  'many wrong %s of one address are answered with 429, and say when to come again',
  async (_, callOf: (n: number) => readonly [string, CallOptions]) => {
    const statuses: number[] = [];
    for (let count = 0; count < ATTEMPTS; count++) {
      const { status, headers } = await server.call(...callOf(count));
      statuses.push(status);
      if (status === 429) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(statuses[0]).toBe(401);
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(ATTEMPTS / 4);
    // Whoever has a good one is let in, from the same address too.
    expect((await server.call('GET /v1/me')).status).toBe(200);
    const { json } = await server.call<{ path: string }>('POST /v1/login-codes', { body: {} });
    expect((await server.call(`POST /v1/login`)).status).toBe(200);
    expect(json.path).toContain('/login?code=');
  },
);

/** Asks with a token, over a connection of these options. */
function statusOf(token: string, options: RequestOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, ...options.headers };
    request({ path: '/v1/me', ...options, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    })
      .on('error', reject)
      .end();
  });
}

it('the socket in the data folder also counts wrong tokens', async () => {
  const options = { socketPath: server.facts.socketPath, headers: { host: 'cella' } };
  const statuses: number[] = [];
  for (let count = 0; count < ATTEMPTS; count++) statuses.push(await statusOf(wrong(0), options));
  expect(statuses[0]).toBe(401);
  expect(statuses.at(-1)).toBe(429);
});

it.runIf(process.platform === 'linux')(
  'guesses of one token count together, from any number of addresses',
  async () => {
    const { port } = new URL(server.url);
    const from = (count: number) => ({ host: '127.0.0.1', port, localAddress: `127.0.1.${count + 1}` });
    const statuses: number[] = [];
    for (let count = 0; count < ATTEMPTS; count++) statuses.push(await statusOf(wrong(0), from(count)));
    expect(statuses[0]).toBe(401);
    expect(statuses.at(-1)).toBe(429);
    expect(await statusOf(wrong(1), from(ATTEMPTS))).toBe(401);
  },
);

it('a viewer cannot fill the audit log with logins and tokens', { timeout: 180_000 }, async () => {
  const token = await server.user('vera', 'viewer');
  const flood = async () => {
    await Promise.all([
      server.call('POST /v1/login', { token }),
      server.call('POST /v1/login-codes', { token, body: {} }),
      server.call('POST /v1/tokens', { token, body: { name: 'x', expiresInMs: 1 } }),
      server.call('POST /v1/tokens', { token, body: { wrong: 'field' } }),
      server.call('DELETE /v1/tokens/aaaaaaaaaaaaaaaa', { token }),
      server.call('POST /v1/logout', { token }),
    ]);
  };
  for (let count = 0; count < 100; count++) await flood();
  const { json } = await server.call<{ entries: AuditRecord[] }>('GET /v1/audit?limit=1000');
  const entries = json.entries.filter(({ userName }) => userName === 'vera');
  expect(entries.length).toBeGreaterThan(10);
  expect(entries.length).toBeLessThan(150);
});

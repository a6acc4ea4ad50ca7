/** What a token may is what its scopes say, whoever's it is; and what nobody may choose, and what goes by itself. */

import { beforeAll, describe, expect, it } from 'vitest';
import type { OpenApiDocument } from '../../../src/server/http/openapi.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let document: OpenApiDocument;

beforeAll(async () => {
  server = await TestServer.start({ sweepMs: 20 });
  document = (await server.call<OpenApiDocument>('GET /openapi.json')).json;
  await server.call('POST /v1/users', { body: { name: 'boss', role: 'admin' } });
});

const codeOf = (json: Record<string, unknown>): unknown => (json.error as { code?: string } | undefined)?.code;

async function tokenOf(...scopes: string[]): Promise<string> {
  const { json } = await server.call('POST /v1/tokens', { body: { name: 'bounded', user: 'boss', scopes } });
  return String(json.token);
}

/** Those that the document calls an administrator's. */
function adminRoutes(): string[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { description }]) => description.includes('administrators'))
      .map(([method]) => `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, 'some-name')}`),
  );
}

describe('a token of an administrator', () => {
  it.each([[['view']], [['use']], [['manage']], [['tokens']], [['view', 'tokens']], [['manage', 'tokens']]])(
    'for %j cannot be used for administration',
    async (scopes) => {
      const token = await tokenOf(...scopes);
      expect((await server.call('GET /v1/me', { token })).json).toMatchObject({ role: 'admin' });
      expect(adminRoutes().length).toBeGreaterThan(6);
      for (const call of adminRoutes()) {
        const body = call.startsWith('GET') ? {} : { body: { name: 'x' } };
        const { status, json } = await server.call(call, { token, ...body });
        expect.soft({ call, status, code: codeOf(json) }).toEqual({ call, status: 403, code: 'FORBIDDEN' });
      }
    },
  );

  it.each([
    ['GET /v1/users/local', undefined],
    ['GET /v1/tokens?user=local', undefined],
    ['POST /v1/tokens', { name: 'x', user: 'local' }],
    ['POST /v1/tokens', { name: 'x', scopes: ['admin'] }],
    ['POST /v1/login-codes', { user: 'local' }],
    ['POST /v1/sessions', { executor: 'in-process' }],
    ['POST /v1/sessions', { sandbox: 'off' }],
    ['POST /v1/sessions', { cwd: '/' }],
    ['POST /v1/sessions', { sandbox: { network: 'host' } }],
    ['POST /v1/sessions', { sandbox: { readable: ['/etc'] } }],
  ])('without the scope admin cannot use %s %j', async (call, body) => {
    const token = await tokenOf('manage', 'tokens');
    const { status, json } = await server.call(call, { token, ...(body === undefined ? {} : { body }) });
    expect({ status, code: codeOf(json) }).toEqual({ status: 403, code: 'FORBIDDEN' });
  });

  it.each([
    [['view'], 403],
    [['use'], 403],
    [['tokens'], 403],
    [['manage'], 201],
  ])('for %j creates a session: %i', async (scopes, status) => {
    const token = await tokenOf(...scopes);
    expect((await server.call('POST /v1/sessions', { token, body: { agentKey: 'own' } })).status).toBe(status);
  });

  it('without the scope tokens creates none, and without admin sees nobody else’s session', async () => {
    const body = { name: 'x' };
    expect((await server.call('POST /v1/tokens', { token: await tokenOf('manage'), body })).status).toBe(403);
    const { id } = await server.session({ agentKey: 'of local' });
    expect((await server.call(`GET /v1/sessions/${id}`, { token: await tokenOf('manage') })).status).toBe(404);
  });

  it('creates a login code for another user that allows only what both may do', async () => {
    await server.user('looker', 'viewer');
    const { json } = await server.call('POST /v1/login-codes', {
      token: await tokenOf('view', 'admin'),
      body: { user: 'looker' },
    });
    const entered = await server.fetch(`POST ${String(json.path)}`, { token: null });
    const cookie = entered.headers.get('set-cookie')?.split(';')[0] ?? '';
    const me = await server.call('GET /v1/me', { token: null, headers: { cookie } });
    expect(me.json).toMatchObject({ userName: 'looker', scopes: ['view'] });
    await server.call('PATCH /v1/users/looker', { body: { disabled: true } });
    expect((await server.call('POST /v1/login-codes', { body: { user: 'looker' } })).status).toBe(403);
    expect((await server.call('POST /v1/login-codes', { body: { user: 'nobody' } })).status).toBe(404);
  });
});

it('refuses an agent key with the prefix of users’ keys in storage', async () => {
  const { id } = await server.session({ agentKey: 'plain~key' });
  for (const agentKey of ['~', '~x', '~boss~abcdefghijkl/x']) {
    for (const call of ['POST /v1/sessions', `POST /v1/sessions/${id}/fork`]) {
      const { status, json } = await server.call(call, { body: { agentKey } });
      expect({ call, status, code: codeOf(json) }).toEqual({ call, status: 400, code: 'INVALID_REQUEST' });
    }
  }
});

it('removes expired tokens and logins automatically', async () => {
  await server.call('POST /v1/tokens', { body: { name: 'short', expiresInMs: 1 } });
  const names = async () => {
    const { json } = await server.call<{ tokens: { name: string }[] }>('GET /v1/tokens');
    return json.tokens.map(({ name }) => name);
  };
  await expect.poll(names, { timeout: 10_000 }).not.toContain('short');
  expect(await names()).toContain('admin-token');
});

it('responds with 401 before 404, 404 before 403 for the right, that before 403 for the scope, and that before 400', async () => {
  const owner = await server.user('first', 'member');
  const viewer = await server.user('second', 'viewer');
  const shares = [{ user: 'second', right: 'use' }];
  const { json } = await server.call('POST /v1/sessions', { token: owner, body: { agentKey: 'order', shares } });
  const there = `POST /v1/sessions/${json.id}/tools`;
  const wrong = { wrong: true };
  const details = (given: Record<string, unknown>) => Object.keys(Object((given.error as object) ?? {}).details ?? {});
  const order: [call: string, token: string | null, status: number, detail?: string][] = [
    ['POST /v1/sessions/none/tools', null, 401],
    ['POST /v1/sessions/none/tools', viewer, 404],
    [there, viewer, 403, 'right'],
    [there, owner, 403, 'scope'],
    [there, server.token, 400],
    ['POST /v1/sessions', null, 401],
    ['POST /v1/sessions', viewer, 403, 'scope'],
    ['POST /v1/sessions', owner, 400],
    ['PUT /v1/profiles/mine', viewer, 403, 'scope'],
    ['PUT /v1/profiles/mine', owner, 400],
  ];
  for (const [call, token, status, detail] of order) {
    const given = await server.call(call, { token, body: wrong });
    expect.soft({ call, status: given.status }).toEqual({ call, status });
    if (detail !== undefined) expect.soft(details(given.json)).toContain(detail);
  }
});

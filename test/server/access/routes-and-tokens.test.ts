/** Every route of the server, and who gets through it: table-driven over its own document, so that none is forgotten. */

import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import type { OpenApiDocument } from '../../../src/server/http/openapi.ts';
import { TestServer } from '../../support/servers/server.ts';

const OPEN = new Set(['get /', 'get /health', 'get /login', 'post /login']);

let server: TestServer;
let session: string;
let document: OpenApiDocument;
let tokens: Record<string, string | null>;

beforeAll(async () => {
  server = await TestServer.start({
    // Thousands of wrong tokens are shown here; test/server/access/failed-logins.test.ts is about that.
    credentialRates: { burst: 1_000_000 },
  });
  session = (await server.session({ agentKey: 'guarded' })).id;
  document = (await server.call<OpenApiDocument>('GET /openapi.json')).json;
  const expired = await server.user('late', 'member', { expiresInMs: 1 });
  const revoked = await server.user('out', 'member');
  const { json } = await server.call<{ tokens: { id: string }[] }>('GET /v1/tokens?user=out');
  for (const { id } of json.tokens) await server.call(`DELETE /v1/tokens/${id}`);
  const disabled = await server.user('disabled', 'member');
  await server.call('PATCH /v1/users/disabled', { body: { disabled: true } });
  const [head, id, secret = ''] = server.token.split('_');
  tokens = {
    none: null,
    expired,
    revoked,
    disabled,
    forged: `${head}_${id}_${secret.slice(0, -1)}${secret.endsWith('A') ? 'B' : 'A'}`,
    'of nobody': `${head}_${'0'.repeat(16)}_${secret}`,
    'no token at all': 'x'.repeat(5000),
    foreign: await server.user('stranger', 'member'),
    viewer: await server.user('onlooker', 'viewer'),
  };
});

interface Route {
  readonly what: string;
  readonly call: string;
  readonly method: string;
  readonly path: string;
}

function routes(): Route[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => {
      const real = path.replace('{id}', session).replaceAll(/\{\w+\}/g, 'some-name');
      return { what: `${method} ${path}`, call: `${method.toUpperCase()} ${real}`, method, path };
    }),
  );
}

describe('the routes of the OpenAPI document', () => {
  it('have unique operation ids for generated clients, and describe headers and WebSockets', () => {
    const all = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const ids = all.map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids) expect(id).toMatch(/^[a-z]+[A-Z][a-zA-Z]*$/);
    const execute = document.paths['/v1/sessions/{id}/execute']?.post;
    expect(execute?.operationId).toBe('postSessionsByIdExecute');
    expect(execute?.parameters).toContainEqual(
      expect.objectContaining({ name: 'Idempotency-Key', in: 'header', required: false }),
    );
    expect(Object.keys(document.paths['/v1/sessions/{id}/ws']?.get?.responses ?? {})).toContain('101');
  });

  it('are about seventy, each with a summary and who may use it', () => {
    expect(routes().length).toBeGreaterThan(65);
    expect(Object.keys(document.paths)).toEqual(
      expect.arrayContaining(['/v1/sessions/{id}/ws', '/v1/sessions/{id}/mcp', '/v1/sessions/{id}/events']),
    );
    for (const { method, path } of routes()) {
      const { summary, description, security } = document.paths[path]?.[method] ?? {};
      expect.soft(summary).toMatch(/\w/);
      expect.soft(description).toMatch(/\w/);
      expect.soft(security?.length).toBe(OPEN.has(`${method} ${path}`) ? 0 : 2);
    }
  });

  it.each(['none', 'expired', 'revoked', 'disabled', 'forged', 'of nobody', 'no token at all'])(
    'refuse a token that is %s',
    async (kind) => {
      for (const { what, call, method } of routes()) {
        if (OPEN.has(what)) continue;
        const body = method === 'get' ? {} : { body: {} };
        const { status, json, headers } = await server.call(call, { token: tokens[kind] ?? null, ...body });
        expect.soft({ what, status, code: codeOf(json) }).toEqual({ what, status: 401, code: 'UNAUTHENTICATED' });
        expect.soft(headers.get('www-authenticate')).toContain('Bearer');
      }
    },
  );

  const no: [kind: string, answer: number][] = [
    ...['none', 'expired', 'revoked', 'forged'].map((kind): [string, number] => [kind, 401]),
    ['foreign', 404],
    ['viewer', 404],
  ];
  it.each(no)('open no WebSocket for a token that is %s: WebSockets were open to anyone', async (kind, answer) => {
    const token = tokens[kind];
    const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
    const asked = routes().filter(({ method, what, path }) => {
      // Whose token is good is kept from what is not its own.
      return method === 'get' && !OPEN.has(what) && (answer === 401 || path.includes('{id}'));
    });
    expect(asked.map(({ path }) => path)).toContain('/v1/sessions/{id}/ws');
    for (const { what, call } of asked) {
      const socket = new WebSocket(new URL(call.slice('GET '.length), server.url.replace('http', 'ws')), { headers });
      socket.on('error', () => {}); // it is refused
      const [, response] = await once(socket, 'unexpected-response');
      expect.soft({ what, status: response.statusCode }).toEqual({ what, status: answer });
      response.destroy();
    }
  });

  it.each(['foreign', 'viewer'])('reveal nothing of a session to a %s token: 404 for all', async (kind) => {
    for (const { what, call, method, path } of routes()) {
      if (!path.includes('{id}')) continue;
      const body = method === 'get' ? {} : { body: {} };
      const { status, json } = await server.call(call, { token: tokens[kind], ...body });
      expect.soft({ what, status, code: codeOf(json) }).toEqual({ what, status: 404, code: 'NOT_FOUND' });
    }
  });

  it('return and change nothing of another user, whatever name is given', async () => {
    await server.call('PUT /v1/profiles/mine', { body: { systemPrompt: 'Of the owner.' } });
    await server.call('PUT /v1/credentials/anthropic', { body: { value: 'sk-of-the-owner' } });
    const rule = await server.call<{ id: string }>('POST /v1/permission-rules', { body: { tool: 't', pattern: '*' } });
    const held = await server.call<{ tokens: { id: string }[] }>('GET /v1/tokens');
    const names: Record<string, string | undefined> = {
      ...{ user: 'onlooker', token: held.json.tokens[0]?.id, name: 'mine', provider: 'anthropic', rule: rule.json.id },
    };
    await server.call('PUT /v1/artifacts/mine/content', { body: 'Of the owner.' });
    const seen = () =>
      Promise.all(
        ['profiles', 'credentials', 'permission-rules', 'users', 'artifacts'].map((what) =>
          server.call(`GET /v1/${what}`),
        ),
      );
    const before = (await seen()).map(({ json }) => json);
    for (const json of before) expect(Object.values(json)).not.toContainEqual([]);
    const named = routes().filter(({ path }) => path.includes('{') && !path.includes('{id}'));
    expect(named.length).toBeGreaterThan(8);
    for (const { what, method, path } of named) {
      const real = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => names[name] ?? `no name for ${name}`);
      const body = method === 'put' ? { body: what.includes('profiles') ? {} : { value: 'sk-of-a-stranger' } } : {};
      const given = method === 'patch' ? { body: { disabled: true } } : body;
      const { status, text } = await server.call(`${method.toUpperCase()} ${real}`, {
        token: tokens.foreign,
        ...given,
      });
      // What a stranger puts under the same name is its own.
      if (method === 'put') expect.soft({ what, status }).toEqual({ what, status: 200 });
      else if (method !== 'delete' || !/profiles|credentials|artifacts|deps/.test(what)) {
        expect.soft({ what, refused: status === 403 || status === 404 }).toEqual({ what, refused: true });
      }
      expect.soft(text).not.toContain('Of the owner');
    }
    expect((await seen()).map(({ json }) => json)).toEqual(before);
    expect((await server.call('GET /v1/me')).status).toBe(200);
  });

  it('let a viewer view shared sessions, and change nothing', async () => {
    const shared = await server.session({ agentKey: 'shared', shares: [{ user: 'onlooker', right: 'view' }] });
    expect(await server.call(`GET /v1/sessions/${shared.id}`, { token: tokens.viewer })).toMatchObject({ status: 200 });
    for (const { what, call, method, path } of routes()) {
      if (!path.includes('{id}') || method === 'get') continue;
      const { status } = await server.call(call.replace(session, shared.id), { token: tokens.viewer, body: {} });
      expect.soft({ what, status }).toEqual({ what, status: 403 });
    }
    expect(await server.call('POST /v1/sessions', { token: tokens.viewer, body: {} })).toMatchObject({ status: 403 });
  });

  it('allow administration only for administrators', async () => {
    for (const { what, call, method, path } of routes()) {
      const { description } = document.paths[path]?.[method] ?? { description: '' };
      if (!description.includes('administrators')) continue;
      const body = method === 'get' ? {} : { body: { name: 'x' } };
      const { status } = await server.call(call, { token: tokens.foreign, ...body });
      expect.soft({ what, status }).toEqual({ what, status: 403 });
    }
  });

  it('let nobody change the audit log: it can be read, and grows', async () => {
    const entries = async () => (await server.call<{ entries: object[] }>('GET /v1/audit?limit=1000')).json.entries;
    const before = await entries();
    expect(before.length).toBeGreaterThan(5);
    const about = Object.entries(document.paths).filter(([path]) => path.includes('audit'));
    expect(about.map(([path, methods]) => [path, Object.keys(methods)])).toEqual([['/v1/audit', ['get']]]);
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
      for (const path of ['/v1/audit', '/v1/audit/1', '/v1/audit?session=all']) {
        const { status } = await server.call(`${method} ${path}`, { body: {} });
        expect.soft({ method, path, status }).toEqual({ method, path, status: 404 });
      }
    }
    // What other routes do to their own things does not reach it either.
    const { id } = await server.session({ agentKey: 'short-lived' });
    for (const { call, method, what } of routes()) {
      if (method === 'get' || !what.includes('{')) continue;
      await server.call(call.replace(session, id), { body: {} });
    }
    await server.call(`DELETE /v1/sessions/${id}`);
    const after = await entries();
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.length).toBeGreaterThan(before.length);
  });

  it('refuse garbage with an error code and without a stack', async () => {
    const garbage = ['', '[', 'null', '[]', '"x"', '{"a":', '\u0000', `${'['.repeat(100_000)}`, '{"__proto__":{}}'];
    for (const { what, call, method } of routes()) {
      // What these do needs no body, or takes any.
      if (method === 'get' || method === 'delete' || /content$|\/(login|logout|login-codes|rotate)$/.test(what))
        continue;
      if (
        /\/(mcp|confirm|hibernate|reset|restart|save|commit|rollback|undo|interrupt|stop|sync|checkpoints|restore)$/.test(
          what,
        )
      )
        continue;
      if (what === 'post /v1/sessions') continue;
      for (const body of garbage) {
        const { status, text } = await server.call(call, { body });
        expect.soft({ what, body: body.slice(0, 10), ok: status >= 400 && status < 500 }).toMatchObject({ ok: true });
        expect.soft(text).not.toMatch(/node:|\.ts:|at .*\(/);
      }
    }
  });
});

const codeOf = (json: Record<string, unknown>): unknown => (json.error as { code?: string } | undefined)?.code;

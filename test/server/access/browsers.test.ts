/** Browsers and whoever pretends to be one: hosts, origins, logins, cookies, headers, logs, and bodies without end. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import type { OpenApiDocument } from '../../../src/server/http/openapi.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { TestServer } from '../../support/servers/server.ts';

let server: TestServer;
let logFile: string;
beforeAll(async () => {
  logFile = join(await scratchFolder(), 'log');
  server = await TestServer.start({ logLevel: 'debug', logFile });
});

const codeOf = (json: Record<string, unknown>): unknown => (json.error as { code?: string } | undefined)?.code;

/** With headers that `fetch` does not let through. */
async function raw(path: string, headers: Record<string, string>, method = 'GET'): Promise<number> {
  const sent = request(new URL(path, server.url), {
    method,
    headers: { authorization: `Bearer ${server.token}`, ...headers },
  });
  sent.end();
  const [response]: IncomingMessage[] = (await once(sent, 'response')) as [IncomingMessage];
  response?.resume();
  return response?.statusCode ?? 0;
}

async function login(
  path = new URL(server.facts.loginUrl ?? ''),
): Promise<{ status: number; cookie: string; set: string }> {
  const { status, headers } = await server.call(`POST ${path.pathname}${path.search}`, { token: null });
  const set = headers.get('set-cookie') ?? '';
  return { status, set, cookie: set.split(';')[0] ?? '' };
}

async function newCode(): Promise<URL> {
  const { json } = await server.call('POST /v1/login-codes');
  return new URL(String(json.path), server.url);
}

describe('Host and Origin', () => {
  it.each(['evil.example', 'evil.example:7710', '127.0.0.1.evil.example', '10.1.2.3', 'localhost.evil', 'a b'])(
    'refuse the host %s',
    async (host) => {
      expect(await raw('/v1/me', { host })).toBeGreaterThanOrEqual(400);
      expect(await raw('/health', { host })).toBeGreaterThanOrEqual(400);
    },
  );

  it('refuse pages of other sites, even with a token, and allow the server’s own', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', `${server.url}.evil.example`]) {
      expect(await raw('/v1/me', { origin })).toBe(403);
      expect(await raw('/v1/sessions', { origin }, 'POST')).toBe(403);
    }
    expect(await raw('/v1/me', { origin: server.url })).toBe(200);
    // Offered by some clients with every request.
    expect(await raw('/v1/me', { connection: 'Upgrade', upgrade: 'h2c' })).toBe(200);
    const { headers } = await server.call('GET /v1/me', { headers: { origin: server.url } });
    expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('a login', () => {
  it('works once for a link, even for many at the same time, and gives a cookie that scripts cannot read', async () => {
    const link = await newCode();
    const all = await Promise.all([1, 2, 3, 4].map(() => login(link)));
    expect(all.map(({ status }) => status).toSorted()).toEqual([303, 401, 401, 401]);
    const { set } = all.find(({ status }) => status === 303) ?? { set: '' };
    expect(set).toContain('HttpOnly');
    expect(set).toContain('SameSite=Strict');
    expect(set).not.toContain(server.token);
    expect((await login(link)).status).toBe(401);
  });

  it('works with a code that the client created for the user, or an admin for another user', async () => {
    await using admin = await connect({ url: server.url, token: server.token });
    await using member = await connect({ url: server.url, token: await server.user('coded', 'member') });
    const codes = [await admin.users.loginCode(), await member.users.loginCode(), await admin.users.loginCode('coded')];
    const names = [];
    for (const { code, path, expiresAt } of codes) {
      const link = new URL(path, server.url);
      expect(link.searchParams.get('code')).toBe(code);
      expect(expiresAt).toBeGreaterThan(Date.now());
      const { status, cookie } = await login(link);
      expect(status).toBe(303);
      names.push((await server.call('GET /v1/me', { token: null, headers: { cookie } })).json.userName);
      expect((await login(link)).status).toBe(401);
    }
    expect(names).toEqual(['local', 'coded', 'coded']);
    await expect(member.users.loginCode('local')).rejects.toMatchObject({ code: 'FORBIDDEN' });
    await expect(admin.users.loginCode('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  it('redirects a browser with a page: a redirect that began at another site would send no cookie', async () => {
    const { pathname, search } = await newCode();
    const headers = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };
    const form = { ...headers, origin: server.url, 'content-type': 'application/x-www-form-urlencoded' };
    const page = await server.call(`POST ${pathname}${search}`, { token: null, headers: form, body: '' });
    expect([page.status, page.headers.get('refresh')]).toEqual([200, '0; url=/docs']);
    expect(page.headers.get('set-cookie')).toContain('SameSite=Strict');
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(page.text).toContain('<a href="/docs">');
  });

  it('is not used up by link previews, only by the button of its page, and not from another site', async () => {
    const { pathname, search } = await newCode();
    const at = `${pathname}${search}`;
    for (const method of ['HEAD', 'GET', 'OPTIONS', 'GET']) {
      for (const accept of ['*/*', 'text/html']) {
        const { headers } = await server.call(`${method} ${at}`, { token: null, headers: { accept } });
        expect(headers.get('set-cookie')).toBe(null);
      }
    }
    const { text, headers } = await server.call(`GET ${at}`, { token: null });
    expect(text).toContain('<form method="post"><button');
    expect(text).not.toContain('code=');
    expect(headers.get('content-security-policy')).toContain("form-action 'self'");
    expect(headers.get('referrer-policy')).toBe('origin');
    for (const origin of ['https://evil.example', 'null']) {
      expect((await server.call(`POST ${at}`, { token: null, headers: { origin } })).status).toBe(403);
    }
    expect((await server.call(`POST ${at}`, { token: null, headers: { origin: server.url } })).status).toBe(303);
    expect((await server.call(`POST ${at}`, { token: null })).status).toBe(401);
  });

  it('needs its CSRF token for changes', async () => {
    const { cookie } = await login(await newCode());
    const me = await server.call('GET /v1/me', { token: null, headers: { cookie } });
    expect(me).toMatchObject({ status: 200, json: { userName: 'local' } });
    const csrf = String(me.json.csrf);
    const create = (headers: Record<string, string>) =>
      server.call('POST /v1/sessions', { token: null, body: { agentKey: 'browser' }, headers: { cookie, ...headers } });
    expect(codeOf((await create({})).json)).toBe('FORBIDDEN');
    expect(codeOf((await create({ 'x-cella-csrf': `${csrf}x` })).json)).toBe('FORBIDDEN');
    expect((await create({ 'x-cella-csrf': csrf, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await create({ 'x-cella-csrf': csrf })).status).toBe(201);
    const headers = { cookie, 'x-cella-csrf': csrf };
    expect((await server.call('POST /v1/logout', { token: null, headers })).status).toBe(204);
    expect((await server.call('GET /v1/me', { token: null, headers: { cookie } })).status).toBe(401);
  });

  it('cannot create tokens: no access is left after its user was logged out', async () => {
    await server.user('victoria', 'member');
    const { json } = await server.call('POST /v1/login-codes', { body: { user: 'victoria' } });
    const { cookie } = await login(new URL(String(json.path), server.url));
    const me = await server.call('GET /v1/me', { token: null, headers: { cookie } });
    const headers = { cookie, 'x-cella-csrf': String(me.json.csrf) };
    const made = await server.call('POST /v1/tokens', { token: null, headers, body: { name: 'stays' } });
    expect([made.status, codeOf(made.json)]).toEqual([403, 'FORBIDDEN']);
    expect(made.text).toContain('cella tokens create --user victoria');
    const { json: kept } = await server.call('GET /v1/tokens?user=victoria');
    expect((kept.tokens as { name: string }[]).map(({ name }) => name)).toEqual(['test']);
    expect((await server.call('DELETE /v1/users/victoria/logins')).status).toBe(204);
    expect((await server.call('GET /v1/me', { token: null, headers })).status).toBe(401);
  });

  it('works with a token, and ends with it', async () => {
    const token = await server.user('browser', 'member');
    const opened = await server.call('POST /v1/login', { token });
    expect(opened.status).toBe(200);
    const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await server.call('GET /v1/me', { token: null, headers: { cookie } })).json.userName).toBe('browser');
    const { json } = await server.call<{ tokens: { id: string }[] }>('GET /v1/tokens?user=browser');
    for (const { id } of json.tokens) await server.call(`DELETE /v1/tokens/${id}`);
    expect((await server.call('GET /v1/me', { token: null, headers: { cookie } })).status).toBe(401);
  });
});

describe('answers', () => {
  it('have headers that stop browsers from guessing, framing and loading', async () => {
    for (const path of ['/', '/health', '/docs', '/nope', '/v1/me']) {
      const { headers } = await server.call(`GET ${path}`);
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('x-frame-options')).toBe('DENY');
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('x-request-id')).toMatch(/^[\w-]{36}$/);
    }
    const home = await server.call('GET /', { token: null });
    expect(home.headers.get('content-type')).toContain('text/html');
    expect(home.text).toContain('<a href="/docs">');
    expect((await server.call('GET /docs')).text).not.toMatch(/<script|src=|https?:\/\//);
  });

  it('need a token, except health, which reveals nothing', async () => {
    const { status, json } = await server.call('GET /health', { token: null });
    expect({ status, json }).toEqual({ status: 200, json: { status: 'ok' } });
    for (const path of ['/ready', '/metrics', '/docs', '/openapi.json']) {
      expect
        .soft({ path, status: (await server.call(`GET ${path}`, { token: null })).status })
        .toMatchObject({ status: 401 });
    }
    expect((await server.call('GET /ready')).status).toBe(200);
  });

  it('are described in OpenAPI 3.1 without dangling references, and on a page with every route', async () => {
    const { json, text } = await server.call<OpenApiDocument>('GET /openapi.json');
    expect(json.openapi).toMatch(/^3\.1\.\d$/);
    for (const [, pointer = ''] of text.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const found = pointer.split('/').reduce<unknown>((at, key) => Reflect.get(Object(at), key), json);
      expect.soft({ pointer, found: typeof found }).toEqual({ pointer, found: 'object' });
    }
    const page = await server.call('GET /docs');
    expect(page.headers.get('content-type')).toContain('text/html');
    for (const path of Object.keys(json.paths)) expect.soft(page.text).toContain(path);
  });

  it('contain advice if they are errors', async () => {
    const adviceOf = ({ json }: { json: object }) => ('error' in json ? (json.error as { advice: string }).advice : '');
    expect(adviceOf(await server.call('GET /v1/nope'))).toContain('/docs');
    expect(adviceOf(await server.call('POST /login?code=used', { token: null }))).toContain('cella users login');
    const named = ['-s', '-H', 'Host: cella.example', `${server.url}/health`];
    const { stdout } = await promisify(execFile)('curl', named);
    expect(adviceOf({ json: JSON.parse(stdout) })).toContain('--allow-host');
    const { id } = await server.session({ agentKey: 'advised' });
    const { json } = await server.call<{ error: { message: string } }>(`POST /v1/sessions/${id}/execute`, {
      body: { cod: '1' },
    });
    expect(json.error.message).toBe('Invalid request: code: is missing, expected string; Unrecognized key: "cod".');
  });

  it('are pages for browsers: what happened and what to do, with the same status and headers', async () => {
    const link = await newCode();
    const { cookie } = await login(link);
    const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8';
    const cases: [string, Record<string, string>, number, string[]][] = [
      [`POST ${link.pathname}${link.search}`, {}, 401, ['already used', 'cella users login', '<a href="/docs">']],
      ['/docs', {}, 401, ['Not logged in', '<code>cella users login</code>', '<a href="">']],
      ['/v1/me', { cookie: `${cookie}x` }, 401, ['Invalid or expired', '<code>cella users login</code>']],
      ['/nope', { cookie }, 404, ['Not found', '/openapi.json list every route']],
      ['/v1/sessions/%3Cimg%20src=%22x%22%3E', { cookie }, 404, ['Not found', '&lt;img src']],
    ];
    for (const [path, headers, status, words] of cases) {
      const [page, programs] = await Promise.all(
        [accept, 'application/json, text/html;q=0.9'].map((accept) =>
          server.call(path.startsWith('POST') ? path : `GET ${path}`, { token: null, headers: { ...headers, accept } }),
        ),
      );
      expect.soft({ path, status: page?.status }).toEqual({ path, status });
      expect.soft(page?.headers.get('content-type')).toBe('text/html; charset=utf-8');
      for (const word of words) expect.soft(page?.text).toContain(word);
      expect.soft(page?.text).not.toMatch(/<script|<img|src="|https?:\/\//);
      expect.soft(page?.text).not.toContain(link.searchParams.get('code'));
      expect
        .soft(page?.headers.get('content-security-policy'))
        .toMatch(/^default-src 'none'; style-src 'unsafe-inline';/);
      expect.soft(programs?.status).toBe(status);
      expect.soft(programs?.json).toHaveProperty('error.code');
      for (const name of ['x-frame-options', 'x-content-type-options', 'cache-control', 'www-authenticate']) {
        expect.soft([name, page?.headers.get(name)]).toEqual([name, programs?.headers.get(name)]);
      }
    }
    // What is sent to be done is sent by a program.
    const sent = await server.call('POST /v1/sessions', { token: null, headers: { accept } });
    expect([sent.status, codeOf(sent.json)]).toEqual([401, 'UNAUTHENTICATED']);
  });

  it('have metrics for Prometheus', async () => {
    const { id } = await server.session({ agentKey: 'measured' });
    await server.run(id, '1');
    await server.call(`POST /v1/sessions/${id}/restart`);
    const { text } = await server.call('GET /metrics');
    for (const name of [
      'kernels_live 1',
      'executions_total{status="ok"} 1',
      'executions_queued 0',
      'events_total',
      'clients',
      'kernel_recoveries_total 0',
      'kernel_restarts_total 1',
      'execution_seconds_count{status="ok"} 1',
    ]) {
      expect(text).toContain(`cella_${name}`);
    }
    expect(text).toMatch(/cella_http_request_seconds_bucket\{.*route="\/v1\/sessions\/\{id\}\/execute"/);
    expect(Number(/^cella_kernels_memory_bytes (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(100_000);
    expect(text).toContain('# TYPE cella_events_total counter');
    expect(text).toContain('process_resident_memory_bytes');
  });

  it('have metrics of waiting work and recoveries', async () => {
    const { id } = await server.session({ agentKey: 'counted' });
    const number = async (name: string) =>
      Number(new RegExp(`^cella_${name} (\\d+)$`, 'm').exec((await server.call('GET /metrics')).text)?.[1]);
    const recoveries = await number('kernel_recoveries_total');
    await server.run(id, 'x = 1');
    expect(await server.run(id, 'import os; os.kill(os.getpid(), 9)')).toMatchObject({ status: 'died' });
    const running = server.run(id, 'input()');
    await expect
      .poll(async () => (await server.call(`GET /v1/sessions/${id}/events?limit=1000`)).text)
      .toContain('input_request');
    const waiting = server.run(id, '2');
    await expect.poll(() => number('executions_queued')).toBe(1);
    expect(await number('kernel_recoveries_total')).toBe(recoveries + 1);
    await server.call(`POST /v1/sessions/${id}/interrupt`);
    expect([await running, await waiting]).toMatchObject([{ status: 'interrupted' }, { value: 2 }]);
    expect(await number('executions_queued')).toBe(0);
  });

  it('limit the requests of one token, without affecting others', async () => {
    await using strict = await TestServer.start({ rates: { burst: 6, perSecond: 0.01 } });
    const { json } = await strict.call<{ token: string }>('POST /v1/tokens', { body: { name: 'another' } });
    const answers = await Promise.all(Array.from({ length: 8 }, () => strict.call('GET /v1/me')));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBe(3);
    expect(codeOf(refused[0]?.json ?? {})).toBe('RATE_LIMITED');
    expect(Number(refused[0]?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await strict.call('GET /health', { token: null })).status).toBe(200);
    // Not even of the same user.
    const { status } = await strict.call('GET /v1/me', { token: json.token });
    expect(status).toBe(200);
  });

  it('refuse a body without end, in bounded memory', async () => {
    const before = process.memoryUsage().rss;
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    for (const headers of [{ 'content-length': String(1024 ** 3) }, { 'transfer-encoding': 'chunked' }]) {
      const sent = request(new URL('/v1/sessions', server.url), {
        method: 'POST',
        headers: { authorization: `Bearer ${server.token}`, ...headers },
      });
      const closed = once(sent, 'close');
      sent.on('error', () => {}); // a server that has refused need not read the rest
      const answered = once(sent, 'response').then(([response]) => {
        response.resume();
        return response.statusCode;
      });
      const pump = () => {
        for (let n = 0; n < 1024 && !sent.destroyed; n++) if (!sent.write(chunk)) return void sent.once('drain', pump);
      };
      pump();
      expect(await answered).toBe(413);
      sent.destroy();
      await closed;
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(200_000_000);
    expect((await server.call('GET /v1/me')).status).toBe(200);
  });
});

it('logs who did what, and no secret', async () => {
  const { id } = await server.session({ agentKey: 'audited' });
  await server.run(id, 'secret_in_code = "do not log me"');
  const link = await newCode();
  const { cookie } = await login(link);
  await server.call('GET /v1/me', { token: 'cella_forged_token', headers: { 'x-request-id': 'mine' } });
  const { json } = await server.call<{ entries: Record<string, unknown>[] }>(`GET /v1/audit?session=${id}`);
  expect(json.entries).toMatchObject([
    { action: 'session.create', userId: 'local', session: id, outcome: 'ok', from: '127.0.0.1' },
    { action: 'session.execute', session: id, outcome: 'ok' },
  ]);
  await expect.poll(async () => (await readFile(logFile, 'utf8')).includes('"requestId":"mine"')).toBe(true);
  const log = await readFile(logFile, 'utf8');
  const lines = log
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines.find(({ path }) => path === `/v1/sessions/${id}/execute`)).toMatchObject({ status: 200, user: 'local' });
  const code = link.searchParams.get('code') ?? 'none';
  for (const secret of [server.token, 'do not log me', cookie.split('=')[1] ?? 'none', code, 'cella_forged_token']) {
    expect(log).not.toContain(secret);
  }
});

it('keeps members in their own sandbox', async () => {
  const token = await server.user('member', 'member');
  const folders = { sandbox: { readable: ['/etc'] } };
  const network = { sandbox: { network: 'host' } };
  for (const body of [{ executor: 'in-process' }, { sandbox: 'off' }, { cwd: '/' }, folders, network]) {
    const { status, json } = await server.call('POST /v1/sessions', { token, body: { agentKey: 'm', ...body } });
    expect({ body, status, code: codeOf(json) }).toEqual({ body, status: 403, code: 'FORBIDDEN' });
  }
  expect((await server.call('POST /v1/sessions', { token, body: { agentKey: 'm' } })).status).toBe(201);
});

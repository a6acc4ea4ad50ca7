/** Whose it is: tokens, logins, and what belongs to other users. */

import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { tryRoutesByRole } from '../server/access/route-roles.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { once, type Row } from './row.ts';
import type { World } from './world.ts';

const TOKENS = 'Only a valid token or login gives access.';
const FORKS = 'Deleting a session deletes nothing of a fork.';
const OTHERS = 'Data of other users does not exist for a user.';

function row(name: string, promise: string, attempt: (world: World) => Promise<void>, options: Partial<Row> = {}): Row {
  return { name, promise, on: once, ...options, attempt };
}

/** Runs code with the library in a process of its own; gives what it prints. */
async function inProgram(dataDir: string, code: string): Promise<string> {
  const index = new URL('../../src/index.ts', import.meta.url).href;
  const program = `
    const { Session, shutdown } = await import(${JSON.stringify(index)});
    const dataDir = ${JSON.stringify(dataDir)};
    ${code}
    await shutdown();`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program]);
  return stdout;
}

const tokens: Row[] = [
  row('changes each character of a valid token', TOKENS, async ({ mallory, victoria }) => {
    const good = victoria.token;
    for (let at = 0; at < good.length; at++) {
      const token = good.slice(0, at) + (good[at] === 'A' ? 'B' : 'A') + good.slice(at + 1);
      const { status } = await mallory.call('GET /v1/me', { token });
      expect.soft([at, [401, 429].includes(status)]).toEqual([at, true]);
    }
  }),
  row('writes a token in unusual forms', TOKENS, async (world) => {
    const { token } = world.victoria;
    const odd = [
      `Basic ${token}`,
      `bearer  ${token}x`,
      `Bearer ${token} x`,
      `Bearer ${token},Bearer x`,
      `Bearer ${token}%00`,
      'Bearer',
      'Bearer undefined',
      'Bearer null',
      `Token ${token}`,
    ];
    for (const authorization of odd) {
      const reply = await world.mallory.call('GET /v1/me', { token: null, headers: { authorization } });
      expect
        .soft([authorization.slice(0, 12), [401, 429].includes(reply.status)])
        .toEqual([authorization.slice(0, 12), true]);
    }
    for (const query of ['token', 'access_token', 'api_key', 'authorization'])
      expect
        .soft((await world.mallory.call(`GET /v1/me?${query}=${token}`, { token: null })).status)
        .toBeGreaterThanOrEqual(401);
  }),
  row(
    'uses a token after it was revoked, in a request and in a stream',
    TOKENS,
    async (world) => {
      const { mallory } = world;
      const made = await mallory.call('POST /v1/tokens', { body: { name: 'second' } });
      const { token, id } = { token: made.json.token, id: made.json.id ?? made.json.info?.id };
      expect((await mallory.call('GET /v1/me', { token })).status).toBe(200);
      const listed = await mallory.call('GET /v1/tokens');
      const found = listed.json.tokens.find((one: { name: string; id: string }) => one.name === 'second');
      expect((await mallory.call(`DELETE /v1/tokens/${found?.id ?? id}`)).status).toBeLessThan(300);
      for (const what of ['GET /v1/me', 'GET ~/events'])
        expect([401, 429]).toContain((await mallory.call(what, { token })).status);
    },
    { quick: true },
  ),
  row(
    'creates a token with more rights, for another user, or without expiry',
    TOKENS,
    async ({ mallory }) => {
      for (const body of [
        { name: 'x', user: 'victoria' },
        { name: 'x', user: 'local' },
        { name: 'x', scopes: ['admin'] },
        { name: 'x', scopes: ['*'] },
        { name: 'x', role: 'admin' },
        { name: 'x', userId: 'local' },
      ]) {
        const reply = await mallory.call('POST /v1/tokens', { body });
        expect.soft([JSON.stringify(body), reply.status >= 400]).toEqual([JSON.stringify(body), true]);
      }
      expect((await mallory.call('PATCH /v1/users/mallory', { body: { role: 'admin' } })).status).toBe(403);
      expect((await mallory.call('POST /v1/users', { body: { name: 'm2', role: 'admin' } })).status).toBe(403);
      expect((await mallory.call('GET /v1/audit')).status).toBe(403);
      expect((await mallory.call('POST /v1/server/stop')).status).toBe(403);
    },
    { quick: true },
  ),
  row(
    'uses up a login code with a HEAD request, like a link preview',
    TOKENS,
    async (world) => {
      const { json } = await world.victoria.call('POST /v1/login-codes', { body: {} });
      await world.ask(`HEAD ${json.path}`, { token: null });
      await world.ask(`OPTIONS ${json.path}`, { token: null });
      await world.ask(`GET ${json.path}`, { token: null });
      const used = await world.ask(`POST ${json.path}`, { token: null });
      expect([200, 302, 303]).toContain(used.status);
      // Whoever has guessed before, from this address, is slowed down.
      expect([401, 429]).toContain((await world.ask(`POST ${json.path}`, { token: null })).status);
    },
    { quick: true },
  ),
  row('guesses login codes, and uses one twice at once', TOKENS, async (world) => {
    const { json } = await world.mallory.call('POST /v1/login-codes', { body: {} });
    const both = await Promise.all([1, 2, 3, 4].map(() => world.ask(`POST ${json.path}`, { token: null })));
    expect(both.filter(({ status }) => status < 400)).toHaveLength(1);
    for (let at = 0; at < 50; at++) {
      const { status } = await world.ask(`POST /login?code=${randomBytes(24).toString('base64url')}`, { token: null });
      expect([401, 429]).toContain(status);
    }
    expect((await world.mallory.call('POST /v1/login-codes', { body: { user: 'victoria' } })).status).toBe(403);
  }),
  row('tries every route of the OpenAPI document in every role', TOKENS, async () => {
    const { calls, wrong } = await tryRoutesByRole();
    expect(wrong).toEqual([]);
    expect(calls).toBeGreaterThan(600);
  }),
  row('sends a browser’s cookie from another site', TOKENS, async (world) => {
    const { json } = await world.mallory.call('POST /v1/login-codes', { body: {} });
    const { headers } = await world.ask(`POST ${json.path}`, { token: null });
    const cookie = (headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    expect(cookie).not.toBe('');
    expect(headers.get('set-cookie')).toMatch(/HttpOnly/i);
    const forged = { cookie, origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' };
    for (const what of ['POST /v1/sessions', 'POST /v1/tokens', 'PUT /v1/credentials/anthropic', 'POST /v1/logout'])
      expect
        .soft([what, (await world.ask(what, { token: null, headers: forged, body: { name: 'x', value: 'x' } })).status])
        .toEqual([what, 403]);
  }),
  row(
    'guesses tokens, and is slowed down',
    TOKENS,
    async (world) => {
      const guesses = Array.from(
        { length: 3000 },
        () => `cella_${randomBytes(8).toString('hex')}_${randomBytes(32).toString('base64url')}`,
      );
      const codes = new Map<number, number>();
      for (let at = 0; at < guesses.length; at += 100) {
        const replies = await Promise.all(
          guesses.slice(at, at + 100).map((token) => world.mallory.call('GET /v1/me', { token })),
        );
        for (const { status } of replies) codes.set(status, (codes.get(status) ?? 0) + 1);
      }
      expect([...codes.keys()].filter((status) => status !== 401 && status !== 429)).toEqual([]);
      expect(codes.get(429) ?? 0).toBeGreaterThan(0);
      // It is the guesser who waits, and nobody with a token or a code of their own.
      expect((await world.victoria.call('GET /v1/me')).status).toBe(200);
      const { json } = await world.victoria.call('POST /v1/login-codes', { body: {} });
      expect((await world.ask(`POST ${json.path}`, { token: null })).status).toBeLessThan(400);
    },
    { stalls: false },
  ),
];

const foreign: Row[] = [
  row(
    'requests another user’s session in every spelling of its id',
    OTHERS,
    async ({ mallory, victoria }) => {
      const id = victoria.session;
      for (const path of [
        id,
        id.toUpperCase(),
        `${id}%00`,
        `${id}%2f`,
        `x/../${id}`,
        `${mallory.session}%2f..%2f${id}`,
        `./${id}`,
        `${id}?x=1`,
        `${id};x`,
      ]) {
        const { status } = await mallory.call(`GET /v1/sessions/${path}`);
        expect.soft([path, status >= 400]).toEqual([path, true]);
      }
      for (const what of [
        'POST /execute',
        'POST /fork',
        'DELETE ',
        'POST /prompt',
        'GET /files',
        'GET /events',
        'GET /artifacts',
        'POST /mcp',
        'GET /transcript',
        'POST /input',
        'GET /permissions',
      ]) {
        const [method, path] = what.split(' ');
        const { status } = await mallory.call(
          `${method} /v1/sessions/${id}${path}`,
          method === 'GET' ? {} : { body: { code: 'secret', agentKey: 'x', prompt: 'x', request: 1, text: 'x' } },
        );
        expect.soft([what, status]).toEqual([what, 404]);
      }
    },
    { quick: true },
  ),
  row(
    'uses another user’s agent key, and reserved keys',
    OTHERS,
    async (world) => {
      const { mallory, victoria } = world;
      const { json } = await victoria.call('GET ~');
      for (const agentKey of [
        json.agentKey,
        `~${json.agentKey}`,
        `${victoria.userId}/${json.agentKey}`,
        '~audit',
        '~users',
        '../x',
        'a/../../b',
        'x\u0000y',
      ]) {
        const made = await mallory.call('POST /v1/sessions', { body: { agentKey, ...world.executor } });
        if (made.status >= 300) continue;
        expect.soft(made.json.ownerId).toBe(mallory.userId);
        const run = await mallory.run(
          "[n for n in globals() if n in ('kept', 'secret')] + __import__('os').listdir('.')",
          { session: made.json.id },
        );
        expect.soft(JSON.stringify(run.value)).not.toContain('diary');
        await mallory.call(`DELETE /v1/sessions/${made.json.id}`);
      }
    },
    { quick: true },
  ),
  row(
    'repeats another user’s Idempotency-Key',
    OTHERS,
    async (world) => {
      const { mallory, victoria } = world;
      const headers = { 'idempotency-key': 'the-same' };
      await victoria.call('POST ~/execute', { headers, body: { code: 'secret' } });
      const reply = await mallory.call('POST ~/execute', { headers, body: { code: '"mine"' } });
      expect([reply.json.value, reply.json.replayed]).toEqual(['mine', false]);
      const shared = await victoria.call('PATCH ~', { body: { shares: [{ user: 'mallory', right: 'view' }] } });
      expect(shared.status).toBe(200);
      const forbidden = await mallory.call(`POST /v1/sessions/${victoria.session}/execute`, {
        headers,
        body: { code: 'secret' },
      });
      expect(forbidden.status).toBe(403);
      await victoria.call('PATCH ~', { body: { shares: [] } });
    },
    { quick: true },
  ),
  row(
    'lists sessions, kernels, tokens, rules and credentials of other users with filters',
    OTHERS,
    async ({ mallory, victoria }) => {
      for (const path of [
        '/v1/sessions?owner=victoria',
        `/v1/sessions?owner=${victoria.userId}`,
        '/v1/sessions?owner=*',
        '/v1/sessions?owner=',
        '/v1/kernels',
        '/v1/tokens?user=victoria',
        '/v1/credentials?user=victoria',
        '/v1/permission-rules?user=victoria',
        '/v1/usage?user=victoria',
        '/v1/skills?user=victoria',
        '/v1/artifacts?user=victoria',
        '/v1/profiles?user=victoria',
      ]) {
        const { text } = await mallory.call(`GET ${path}`);
        expect.soft([path, text.includes(victoria.session)]).toEqual([path, false]);
      }
      expect((await mallory.call('GET /v1/users/victoria')).status).toBeGreaterThanOrEqual(400);
    },
  ),
  row(
    'makes another user fork a prepared session',
    'A fork by another user runs nothing with that user’s rights before they confirm it.',
    async (world) => {
      const { mallory, victoria } = world;
      const session = await mallory.open();
      const code = `
stolen = []
class Trap:
    def __repr__(self):
        try:
            return 'LOADED ' + str(artifacts.load('diary'))
        except BaseException as error:
            return 'REFUSED ' + type(error).__name__
trap = Trap()
import sys
sys.displayhook = lambda value: stolen.append(repr(trap))`;
      await mallory.value(code, { session });
      await mallory.call(`PATCH /v1/sessions/${session}`, {
        body: { shares: [{ user: 'victoria', right: 'manage' }] },
      });
      const fork = await victoria.call(`POST /v1/sessions/${session}/fork`, {
        body: { agentKey: `forked ${randomBytes(4).toString('hex')}` },
      });
      expect(fork.status).toBe(201);
      // Any call of the victim wakes the planted code; what it got, it could have sent anywhere.
      const seen = await victoria.call(`POST /v1/sessions/${fork.json.id}/execute`, {
        body: { code: '[stolen, repr(trap)]' },
      });
      await victoria.call(`DELETE /v1/sessions/${fork.json.id}`);
      await mallory.call(`DELETE /v1/sessions/${session}`);
      expect(seen.text).not.toContain(world.secrets["the neighbour's artifact"]);
      expect(seen.text).not.toContain('diary');
    },
    { quick: true },
  ),
  row('deletes a session, and with it the files of another user’s fork', FORKS, async (world) => {
    const { mallory, victoria } = world;
    const session = await mallory.open();
    await mallory.value("open('shared', 'w').write('x')", { session });
    await mallory.call(`PATCH /v1/sessions/${session}`, {
      body: { shares: [{ user: 'victoria', right: 'manage' }] },
    });
    const fork = await victoria.call(`POST /v1/sessions/${session}/fork`, {
      body: { agentKey: `fork ${randomBytes(4).toString('hex')}` },
    });
    expect(fork.status).toBe(201);
    await mallory.call(`DELETE /v1/sessions/${session}`);
    const { text } = await victoria.call(`GET /v1/sessions/${fork.json.id}/files/content?path=shared`);
    expect(text).toBe('x');
    await victoria.call(`DELETE /v1/sessions/${fork.json.id}`);
    await mallory.call(`DELETE /v1/sessions/${session}`);
  }),
  row(
    'destroys a session of the library, and with it the files of its fork',
    FORKS,
    async () => {
      const dataDir = await scratchFolder();
      const open = (key: string) => `const ${key} = await Session.open({ agentKey: '${key}', dataDir });`;
      const read = 'console.log((await child.run("open(\'shared\').read()")).value);';
      await inProgram(
        dataDir,
        `${open('parent')}
        await parent.run("open('shared', 'w').write('x')");
        await (await parent.fork({ agentKey: 'child' })).close();
        await (await parent.fork({ agentKey: 'another' })).close();
        await parent.close();`,
      );
      // Each in a program of its own, which knows of the others only what is stored.
      await inProgram(dataDir, `${open('another')} await another.destroy();`);
      expect(await inProgram(dataDir, `${open('child')} ${read} await child.close();`)).toBe('x\n');
      await inProgram(dataDir, `${open('parent')} await parent.destroy();`);
      expect(await inProgram(dataDir, `${open('child')} ${read} await child.close();`)).toBe('x\n');
      await inProgram(dataDir, `${open('child')} await child.destroy();`);
      expect(readdirSync(join(dataDir, 'agents')).filter((name) => !name.startsWith('.new-'))).toEqual([]);
    },
    { on: ['subprocess', 'user'] },
  ),
];

export const accessRows: readonly Row[] = [...tokens, ...foreign];

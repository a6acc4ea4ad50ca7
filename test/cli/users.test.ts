/** `cella users` and `cella tokens` against a server: by the socket of the data folder, and by an address with a token. */

import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { runCella, type Said } from '../support/cli/cli-here.ts';
import { Cella } from '../support/cli/command.ts';
import { scratchFolder } from '../support/kernels/session.ts';
import { TestServer } from '../support/servers/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});

const cella = {
  run: (words: string[], { env = {} }: { env?: NodeJS.ProcessEnv } = {}): Promise<Said> =>
    runCella(words, { CELLA_DATA_DIR: server.facts.dataDir, ...env }),
};

/** One object, from a command that ended well. */
async function json(...words: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await cella.run([...words, '--json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out);
}

describe('cella users', () => {
  it('creates one with a role and quotas, shows and lists it', async () => {
    const made = await cella.run(['users', 'create', 'ada', '--role', 'viewer', '--kernels', '2', '--storage', '5']);
    expect(made).toMatchObject({ code: 0, out: expect.stringContaining('Created ada (viewer).') });
    const quotas = { liveKernels: 2, storageBytes: 5 * 1024 * 1024 };
    expect(await json('users', 'show', 'ada')).toMatchObject({ name: 'ada', role: 'viewer', disabled: false, quotas });
    const { out } = await cella.run(['users', 'list']);
    expect(out).toMatch(
      /^NAME +ROLE +CREATED +QUOTAS\nada +viewer .* ago +2 kernels, 5 MB of storage\nlocal +admin .*\n$/,
    );
    const again = await cella.run(['users', 'create', 'ada']);
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining('A user ada exists already') });
  });

  it('changes the given fields and no others', async () => {
    await json('users', 'create', 'bob', '--kernels', '2', '--memory', '512');
    expect(
      await json('users', 'update', 'bob', '--role', 'admin', '--kernels', 'none', '--executions', '9'),
    ).toMatchObject({
      role: 'admin',
      quotas: { memoryMb: 512, executionsPerMinute: 9 },
    });
    expect((await json('users', 'show', 'bob')).quotas).toEqual({ memoryMb: 512, executionsPerMinute: 9 });
    expect(await cella.run(['users', 'update', 'bob'])).toMatchObject({
      code: 2,
      err: expect.stringContaining('Nothing to change'),
    });
  });

  it('ends the browser logins of one user, and no tokens or other users’ logins', async () => {
    const [token, other] = [await server.user('lou', 'member'), await server.user('max', 'member')];
    const cookieOf = async (by: string) =>
      (await server.call('POST /v1/login', { token: by })).headers.get('set-cookie')?.split(';')[0] ?? '';
    const cookies = [await cookieOf(token), await cookieOf(token), await cookieOf(other)];
    const { json: link } = await server.call<{ path: string }>('POST /v1/login-codes', { token, body: {} });
    const statuses = () =>
      Promise.all(
        cookies.map(async (cookie) => (await server.call('GET /v1/me', { token: null, headers: { cookie } })).status),
      );
    expect(await statuses()).toEqual([200, 200, 200]);
    expect((await server.call('DELETE /v1/users/lou/logins', { token: other })).status).toBe(403);
    expect(await cella.run(['users', 'logout', 'lou'])).toMatchObject({
      code: 0,
      out: 'Ended all browser logins of lou.\n',
    });
    expect(await statuses()).toEqual([401, 401, 200]);
    // A link that nobody has used yet would be a way back in.
    expect((await server.call(`POST ${link.path}`, { token: null })).status).toBe(401);
    expect((await server.call('GET /v1/me', { token })).status).toBe(200);
    // Everybody may end their own.
    expect((await server.call('DELETE /v1/users/max/logins', { token: other })).status).toBe(204);
    expect(await statuses()).toEqual([401, 401, 401]);
    const { json } = await server.call<{ entries: { action: string; target?: string; outcome: string }[] }>(
      'GET /v1/audit?limit=1000',
    );
    const ended = json.entries.filter(({ action }) => action === 'login.end');
    expect(ended.map(({ target, outcome }) => [target, outcome])).toEqual([
      ['lou', 'refused'],
      ['lou', 'ok'],
      ['max', 'ok'],
    ]);
  });

  it('disables one, enables it again, and deletes it', async () => {
    const token = await server.user('cy', 'member');
    const status = async () => (await server.call('GET /v1/me', { token })).status;
    expect(await cella.run(['users', 'disable', 'cy'])).toMatchObject({ code: 0, out: 'cy is disabled.\n' });
    expect(await status()).toBe(401);
    expect(await cella.run(['users', 'enable', 'cy'])).toMatchObject({ code: 0, out: 'cy is enabled.\n' });
    expect(await status()).toBe(200);
    expect(await json('users', 'delete', 'cy', '--yes')).toMatchObject({ name: 'cy' });
    expect(await status()).toBe(401);
    expect(await cella.run(['users', 'show', 'cy'])).toMatchObject({
      code: 1,
      err: expect.stringMatching(/There is no user "cy"\.\n.*`cella users list`/),
    });
  });

  it('creates a login link that works once', async () => {
    await server.user('dan', 'member');
    const { code, out, err } = await cella.run(['users', 'login', 'dan']);
    expect({ code, err }).toMatchObject({ code: 0, err: expect.stringContaining('Logs dan in. Works once') });
    const link = out.trim();
    expect(link.startsWith(server.url)).toBe(true);
    const first = await fetch(link, { method: 'POST', redirect: 'manual' });
    expect(first.status).toBe(303);
    const cookie = first.headers.get('set-cookie')?.split(';')[0] ?? '';
    expect((await server.call('GET /v1/me', { token: null, headers: { cookie } })).json).toMatchObject({
      userName: 'dan',
      role: 'member',
    });
    expect((await fetch(link, { method: 'POST', redirect: 'manual' })).status).toBe(401);
  });
});

describe('cella tokens', () => {
  it('creates one and prints only its secret to stdout, lists it without the secret, and revokes it', async () => {
    await server.user('eve', 'member');
    const words = ['tokens', 'create', '--name', 'ci', '--user', 'eve', '--scopes', 'use', '--expires', '2h'];
    const { code, out, err } = await cella.run(words);
    expect(code).toBe(0);
    expect(out).toMatch(/^cella_\w{16}_[\w-]+\n$/);
    expect(err).toContain('not shown again');
    const token = out.trim();
    expect((await server.call('GET /v1/me', { token })).json).toMatchObject({
      userName: 'eve',
      scopes: ['view', 'use'],
    });
    const listed = await cella.run(['tokens', 'list', '--user', 'eve']);
    expect(listed.out).toMatch(/\n\w{16} +eve +ci +view,use /);
    const [, id = '', ...secret] = token.split('_');
    expect(listed.out).not.toContain(secret.join('_'));
    expect(await cella.run(['tokens', 'revoke', id])).toMatchObject({ code: 0, out: `Revoked ${id}.\n` });
    expect((await server.call('GET /v1/me', { token })).status).toBe(401);
    expect((await cella.run(['tokens', 'revoke', id])).code).toBe(1);
  });

  it('of a user are created with the user’s own token, at an address, and never with more rights', async () => {
    const file = join(await scratchFolder(), 'token');
    writeFileSync(file, `${await server.user('fay', 'member', { scopes: ['use', 'tokens'] })}\n`, { mode: 0o644 });
    const at = ['--url', server.url, '--token-file', file];
    expect(await cella.run(['tokens', 'list', ...at])).toMatchObject({
      code: 2,
      err: `cella: Other users can read the token in ${file}.\nRun: chmod 600 ${file}\n`,
    });
    chmodSync(file, 0o600);
    const { token } = await json('tokens', 'create', '--name', 'mine', '--scopes', 'view', ...at);
    expect((await server.call('GET /v1/me', { token: String(token) })).json).toMatchObject({ userName: 'fay' });
    const more = await cella.run(['tokens', 'create', '--name', 'more', '--scopes', 'manage', ...at]);
    expect(more).toMatchObject({ code: 1, err: expect.stringContaining('cannot have the scope manage') });
    expect((await cella.run(['users', 'list', ...at])).err).toContain('needs the scope admin');
    const env = { CELLA_URL: server.url, CELLA_TOKEN_FILE: file };
    expect((await cella.run(['tokens', 'list'], { env })).out).toContain('mine');
  });
});

it('says what to start if no server runs', async () => {
  using other = new Cella();
  for (const words of [
    ['users', 'list'],
    ['tokens', 'create', '--name', 'x'],
  ]) {
    const { code, err } = await other.run(words);
    expect({ code, err }).toMatchObject({ code: 1, err: expect.stringContaining('`cella serve`') });
  }
});

/** `cella sessions` against `cella serve`: by the socket of the data folder, and by an address with a token. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Client, connect } from '../../src/client/index.ts';
import { Cella, type Started } from '../support/cli/command.ts';

const cella = new Cella();
let served: Started;
let url = '';
let client: Client;

beforeAll(async () => {
  served = cella.start(['serve', '--port', '0']);
  await served.says('The first cell');
  url = / at (https?:\S+)/.exec(served.out)?.[1] ?? '';
  client = await connect({ socket: join(cella.dataDir, 'daemon.sock') });
});

afterAll(async () => {
  await client.close();
  served.child.kill('SIGTERM');
  await served.ended;
  cella[Symbol.dispose]();
});

describe('cella sessions', () => {
  it('lists and shows the sessions of the server on the data folder', async () => {
    const { id } = await client.sessions.create({ agentKey: 'shown', labels: { team: 'risk' } });
    const { code, out } = await cella.run(['sessions', 'list', '--label', 'team=risk']);
    expect(code).toBe(0);
    expect(out).toMatch(new RegExp(`^ID .* SETTINGS CHANGED .*\n${id} +shown +hibernated +auto .* team=risk\n$`));
    const json = await cella.run(['sessions', 'show', 'shown', '--json']);
    expect(JSON.parse(json.out)).toMatchObject({ id, agentKey: 'shown', labels: { team: 'risk' } });
    const shown = (await cella.run(['sessions', 'show', id])).out;
    expect(shown).toMatch(/^agent key +shown$/m);
    expect(shown).toMatch(/^settings changed +\d{4}-/m);
  });

  it('shows owners if some sessions belong to others, and who has which right', async () => {
    const { id: user } = await client.users.create({ name: 'ada', role: 'member' });
    const { token } = await client.tokens.create({ name: 'hers', user: 'ada' });
    await using hers = await connect({ url, token });
    const shares = [
      { user: 'local', right: 'use' as const },
      { role: 'member' as const, right: 'view' as const },
    ];
    await hers.sessions.create({ agentKey: 'lent', labels: { whose: 'hers' }, shares });
    const { out } = await cella.run(['sessions', 'list', '--label', 'whose=hers']);
    expect(out).toMatch(/^ID +KEY +OWNER .*\n\S+ +lent +ada /);
    const shown = await cella.run(['sessions', 'show', 'lent']);
    expect(shown.out).toContain('local may use, every member may view\n');
    await client.users.delete(user);
  });

  it('creates no session when it only lists them', async () => {
    const { id: user } = await client.users.create({ name: 'bea', role: 'member' });
    const { token } = await client.tokens.create({ name: 'hers', user: 'bea' });
    await using hers = await connect({ url, token });
    const { code, out } = await cella.run(['storage', 'list', '--json', '--url', url], { env: { CELLA_TOKEN: token } });
    expect({ code, told: JSON.parse(out) }).toMatchObject({ code: 0, told: { artifacts: [], deps: [] } });
    expect((await hers.sessions.list()).sessions).toEqual([]);
    await client.users.delete(user);
  });

  it('confirms a fork of another user’s session once, and says if there is nothing to confirm', async () => {
    const { id: user } = await client.users.create({ name: 'cleo', role: 'member' });
    const { token } = await client.tokens.create({ name: 'hers', user: 'cleo' });
    await using hers = await connect({ url, token });
    const { id: parent } = await hers.sessions.create({ agentKey: 'of cleo' });
    const { id } = await (await client.session(parent)).fork({ agentKey: 'copied' });
    const confirm = async (session: string) => {
      const { code, out, err } = await cella.run(['sessions', 'confirm', session]);
      return { code, told: `${out}${err}` };
    };
    expect(await confirm(id)).toEqual({ code: 0, told: expect.stringMatching(/^Confirmed .* may use your tools/) });
    const { id: own } = await client.sessions.create({ agentKey: 'never forked' });
    for (const there of [id, own]) {
      const told = expect.stringMatching(new RegExp(`^${there} needs no confirmation`));
      expect(await confirm(there)).toEqual({ code: 0, told });
    }
    await client.users.delete(user);
  });

  it('attaches to a session, keeps its variables, and shows what has happened', async () => {
    const session = await client.open({ agentKey: 'attached' });
    await session.run('x = 40');
    const { code, out } = await cella.run(['sessions', 'attach', 'attached'], {
      input: 'y = x + 2\nprint("it is", y)\n',
    });
    expect({ code, out }).toEqual({ code: 0, out: 'it is 42\n' });
    expect((await session.run('y')).value).toBe(42);
    const logs = await cella.run(['sessions', 'logs', 'attached']);
    expect(logs.out).toContain('>>> x = 40\n');
    expect(logs.out).toContain('it is 42\n');
    const lines = (await cella.run(['sessions', 'logs', 'attached', '--json', '--after', '2'])).out.trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).seq)).toEqual(lines.map((_, index) => index + 3));
  });

  it('follows a session until it is stopped', async () => {
    const session = await client.open({ agentKey: 'followed' });
    const following = cella.start(['sessions', 'logs', 'followed', '--follow']);
    await session.run('print("before")');
    await following.says('before\n');
    await session.run('print("after")');
    await following.says('after\n');
    following.child.kill('SIGINT');
    expect(await following.ended).toBe(130);
  });

  it('opens a terminal, passes keys unchanged, and returns the exit code', async () => {
    await client.sessions.create({ agentKey: 'shell' });
    const piped = ['sessions', 'exec', 'shell', '--', 'sh', '-c', 'cat; exit 5'];
    const { code, out } = await cella.run(piped, { input: 'typed\n' });
    expect({ code, out }).toEqual({ code: 5, out: 'typed\r\ntyped\r\n' });
    const started = cella.start(['sessions', 'exec', 'shell'], { terminal: true });
    await started.says('$ ');
    started.type('echo re""ady; cat\r');
    await started.says('ready');
    started.type('seen\r');
    await started.says('seen', 2);
    started.type('\x03');
    await started.says('$ ', 2);
    started.type('exit 6\r');
    expect(await started.ended).toBe(6);
  });

  it('deletes a session', async () => {
    const { id } = await client.sessions.create({ agentKey: 'deleted' });
    expect(await cella.run(['sessions', 'delete', 'deleted'])).toMatchObject({ code: 0 });
    await expect(client.sessions.get(id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    const again = await cella.run(['sessions', 'delete', 'deleted']);
    expect(again).toMatchObject({ code: 2, err: expect.stringContaining('There is no session "deleted"') });
  });

  it('asks the server at an address, with a token from a file or a variable', async () => {
    await client.sessions.create({ agentKey: 'far' });
    const tokenFile = join(cella.dataDir, 'admin-token');
    const list = ['sessions', 'list', '--url', url];
    expect((await cella.run([...list, '--token-file', tokenFile])).out).toContain('far');
    const env = { CELLA_URL: url, CELLA_TOKEN: readFileSync(tokenFile, 'utf8').trim() };
    expect((await cella.run(['sessions', 'list'], { env })).out).toContain('far');
    expect(await cella.run(list)).toMatchObject({ code: 2, err: expect.stringContaining('needs a token') });
    const bare = await cella.run(['sessions', 'list', '--url', '127.0.0.1:7710'], { env });
    expect(bare).toMatchObject({ code: 2, err: expect.stringContaining('such as http://127.0.0.1:7710') });
    const wrong = await cella.run(['sessions', 'list', '--json'], { env: { ...env, CELLA_TOKEN: 'cella_x_y' } });
    expect(JSON.parse(wrong.out)).toMatchObject({ type: 'error', code: 'UNAUTHENTICATED' });
  });

  it('says so if no server runs', async () => {
    using other = new Cella();
    const { code, err } = await other.run(['sessions', 'list']);
    expect(code).toBe(1);
    expect(err).toContain(`No server runs on ${other.dataDir}.`);
    expect(err).toContain('cella serve');
  });
});

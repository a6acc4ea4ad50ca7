/** `Server.open`: a server inside a program that uses the library. */

import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { connect } from '../../../src/client/index.ts';
import { FileStorage, RedisStorage, Server, type ServerOptions } from '../../../src/index.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { TestServer } from '../../support/servers/server.ts';

describe('a server of the library', () => {
  it('serves sessions without a port, leaves nothing behind, and restores variables at its next start', async () => {
    const dataDir = await scratchFolder();
    {
      await using server = await Server.open({ dataDir });
      expect(server).toMatchObject({ own: true, dataDir });
      await using session = await server.session({ agentKey: 'kept' });
      expect((await session.run('x = 41\nx + 1')).value).toBe(42);
      expect((await server.client.server.status()).url).toBe(`unix:${join(dataDir, 'daemon.sock')}`);
      await using beside = await connect({ socket: join(dataDir, 'daemon.sock') });
      expect(beside.me).toMatchObject({ role: 'admin' });
    }
    expect(['daemon.sock', 'daemon.json'].filter((name) => existsSync(join(dataDir, name)))).toEqual([]);
    await using server = await Server.open({ dataDir });
    const session = await server.session({ agentKey: 'kept' });
    expect((await session.run('x')).value).toBe(41);
  });

  it('has coding agents: without a program or a key, a prompt says what to do', async () => {
    await using server = await Server.open({ dataDir: await scratchFolder() });
    const session = await server.session();
    await expect(session.prompt('hello').turn).rejects.toMatchObject({ code: 'AGENT_NOT_INSTALLED' });
    expect(await session.permissions()).toEqual([]);
    expect(await session.stop()).toEqual([]);
    await expect(session.transcript()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(session.decidePermission('prm_0000000000000000', { decision: 'allow' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
    });
  });

  it('is the running server of the data folder, if there is one, and leaves it running', async () => {
    await using cella = await TestServer.start();
    const { dataDir } = cella.facts;
    const server = await Server.open({ dataDir });
    expect(server.own).toBe(false);
    await (await server.session({ agentKey: 'shared' })).run('x = 1');
    await server.close();
    await server.close();
    const { id } = await cella.session({ agentKey: 'shared' });
    expect(await cella.run(id, 'x')).toMatchObject({ value: 1 });
  });

  it('is shared by everybody who opens it at the same time', async () => {
    const dataDir = await scratchFolder();
    const servers = await Promise.all(Array.from({ length: 4 }, () => Server.open({ dataDir })));
    expect(servers.filter(({ own }) => own)).toHaveLength(1);
    const sessions = await Promise.all(servers.map((server) => server.session({ agentKey: 'one' })));
    await Promise.all(sessions.map((session, n) => session.run(`x${n} = ${n}`)));
    expect((await sessions[0]?.run('[x0, x1, x2, x3]'))?.value).toEqual([0, 1, 2, 3]);
    for (const server of servers.toSorted((a, b) => Number(a.own) - Number(b.own))) await server.close();
  });

  it('uses the config file of the data folder for missing options, except addresses', async () => {
    const dataDir = await scratchFolder();
    await writeFile(join(dataDir, 'config.yaml'), 'host: 0.0.0.0\nmax-kernels: 7\ngrace: 3\n', { mode: 0o600 });
    await using server = await Server.open({ dataDir, graceMs: 100, port: 0 });
    const status = await server.client.server.status();
    expect(status).toMatchObject({
      graceMs: 100,
      kernels: { most: 7 },
      url: expect.stringMatching(/^http:..127.0.0.1:/),
    });
    const token = (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
    await using client = await connect({ url: status.url, token });
    expect(client.me.role).toBe('admin');
  });

  it('refuses invalid options before it creates anything', async () => {
    const dataDir = await scratchFolder();
    await using storage = await FileStorage.open(await scratchFolder());
    const deep = join(dataDir, 'd'.repeat(120));
    await mkdir(deep);
    const wrong: [ServerOptions, string][] = [
      [{ dataDir, port: 70_000 }, 'port'],
      [{ dataDir, ...{ prot: 1 } }, 'prot'],
      [{ dataDir, storage }, 'storage'],
      [{ dataDir: deep }, 'dataDir'],
      [{ dataDir, gateway: { providers: ['anthropic=ftp://127.0.0.1'] } }, '--provider'],
      [{ dataDir, masterKey: 'short' }, 'CELLA_MASTER_KEY'],
    ];
    for (const [options, named] of wrong) {
      const refused = expect.objectContaining({ code: 'INVALID_OPTIONS', message: expect.stringContaining(named) });
      await expect(Server.open(options)).rejects.toEqual(refused);
    }
    expect(existsSync(join(dataDir, 'daemon.sock'))).toBe(false);
  });

  it('stores its data in Redis on request, and refuses a running server with another storage', async () => {
    await using redis = await RedisServer.start();
    const dataDir = await scratchFolder();
    await using storage = await RedisStorage.open(redis.url, { prefix: 'library' });
    await using elsewhere = await RedisStorage.open(redis.url, { prefix: 'elsewhere' });
    await using server = await Server.open({ dataDir, storage });
    expect(await server.client.server.status()).toMatchObject({
      storage: 'redis',
      url: expect.stringMatching(/^http:..127.0.0.1:/),
    });
    await expect(Server.open({ dataDir, storage: elsewhere })).rejects.toMatchObject({ code: 'SERVER_RUNNING' });
    await using same = await Server.open({ dataDir, storage });
    await using any = await Server.open({ dataDir });
    expect([server.own, same.own, any.own]).toEqual([true, false, false]);
  });
});

/** A server whose Redis dies, hangs, refuses, lags or forgets: named errors, nothing lost that was acknowledged, and it goes on by itself. */

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Cella } from '../../support/cli/command.ts';
import { CuttingProxy } from '../../support/servers/cutting-proxy.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { Served } from '../../support/servers/serve-process.ts';
import {
  CheckedSession,
  codeOf,
  endAsItCan,
  endInOrder,
  newSession,
  pythonFlags,
  underLoad,
} from './checked-session.ts';

/** A Redis that does not forget what it has said when it is killed. */
async function startRedis(...args: string[]): Promise<RedisServer> {
  const redis = await RedisServer.start({ args: ['--appendfsync', 'always', ...args] });
  onTestFinished(() => redis.remove());
  return redis;
}

async function startServer(cella: Cella, url: string): Promise<Served> {
  return await Served.start(cella, [...pythonFlags, '--grace', '1', '--storage', 'redis', '--redis', url]);
}

async function twoSessions(served: Served): Promise<readonly CheckedSession[]> {
  return await Promise.all(['one', 'two'].map((key) => CheckedSession.of(served, key)));
}

/** Within reach of nobody but the user of the server. */
async function statusAtSocket(served: Served): Promise<number | undefined> {
  return await new Promise((resolve, reject) => {
    const socketPath = join(served.dataDir, 'daemon.sock');
    const sent = request({ socketPath, path: '/v1/me', headers: { host: 'localhost' } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    sent.on('error', reject).end();
  });
}

test('a Redis that is killed three times under load loses nothing acknowledged', async () => {
  using cella = new Cella();
  const redis = await startRedis();
  const served = await startServer(cella, redis.url);
  const sessions = await twoSessions(served);
  const load = underLoad(sessions);
  for (let n = 0; n < 3; n++) {
    await load.more(3);
    await redis.restart();
  }
  await load.more(3);
  for (const code of await load.stop()) expect(code).toBe('STORAGE_UNREACHABLE');
  for (const session of sessions) await session.check();
  await endInOrder(served);
});

test('connections that Redis closes, and a Redis that hangs, are named errors, and the server recovers', async () => {
  using cella = new Cella();
  const redis = await startRedis();
  const served = await startServer(cella, redis.url);
  const sessions = await twoSessions(served);
  const load = underLoad(sessions);
  for (let n = 0; n < 20; n++) {
    await load.more(1);
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal');
  }
  await redis.freeze();
  await expect.poll(() => load.codes.has('STORAGE_UNREACHABLE')).toBe(true);
  expect(await codeOf(served.ask('GET /ready'))).toBe('STORAGE_UNREACHABLE');
  await redis.thaw();
  await load.more(3);
  for (const code of await load.stop()) expect(code).toBe('STORAGE_UNREACHABLE');
  for (const session of sessions) await session.check();
  await endInOrder(served);
});

test('a Redis that accepts no writes, as a replica or without memory, is STORAGE_FAILED, and the server recovers', async () => {
  using cella = new Cella();
  const redis = await startRedis();
  const served = await startServer(cella, redis.url);
  const sessions = await twoSessions(served);
  for (const session of sessions) await session.run('kept = 1');
  const refusals = [
    [() => redis.command('CONFIG', 'SET', 'maxmemory', '1'), () => redis.command('CONFIG', 'SET', 'maxmemory', '0')],
    // It would begin with what the other has, which is nothing: nobody answers there.
    [() => redis.command('REPLICAOF', '127.0.0.1', '1'), () => redis.command('REPLICAOF', 'NO', 'ONE')],
  ] as const;
  for (const [refuse, takeAgain] of refusals) {
    expect(await refuse()).toBe('OK');
    for (const session of sessions) expect(await session.run('kept += 1')).toMatchObject({ code: 'STORAGE_FAILED' });
    await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('STORAGE_FAILED');
    expect(await takeAgain()).toBe('OK');
    await expect.poll(() => codeOf(served.ask('GET /ready'))).toBe('ok');
    for (const session of sessions) await expect.poll(() => session.run('1')).toMatchObject({ value: 1 });
  }
  for (const session of sessions) await session.check();
  await endInOrder(served);
});

// Outside of what docs/storage.md promises: the server must survive it all the same.
test.each([
  ['is emptied', (redis: RedisServer) => redis.command('FLUSHALL')],
  ['comes back empty', (redis: RedisServer) => redis.restartEmpty()],
])(
  'when Redis %s the server lives, lets nobody in by an old token, and works after its next start',
  async (_how, forget) => {
    using cella = new Cella();
    const redis = await startRedis();
    const served = await startServer(cella, redis.url);
    const session = await CheckedSession.of(served, 'forgotten');
    await session.run('kept = 1');
    await forget(redis);
    await expect.poll(() => codeOf(served.ask('GET /v1/me'))).toBe('UNAUTHENTICATED');
    await expect.poll(() => statusAtSocket(served)).toBe(200);
    await endAsItCan(served);
    const before = served.token;
    const again = await startServer(cella, redis.url);
    expect(readFileSync(join(cella.dataDir, 'admin-token'), 'utf8').trim()).not.toBe(before);
    const fresh = await CheckedSession.of(again, 'fresh');
    expect(await fresh.run('6 * 7')).toMatchObject({ value: 42 });
    await fresh.check();
    await endInOrder(again);
  },
);

test('a Redis that evicts keys when it is full does not end the server, and the next start works', async () => {
  using cella = new Cella();
  const redis = await startRedis('--maxmemory-policy', 'allkeys-lru');
  const served = await startServer(cella, redis.url);
  const session = await CheckedSession.of(served, 'evicted');
  await session.run('kept = 1');
  await redis.command('CONFIG', 'SET', 'maxmemory', '1');
  await expect.poll(() => redis.command('DBSIZE').then(Number)).toBeLessThan(10);
  await codeOf(newSession(served, 'another'));
  await redis.command('CONFIG', 'SET', 'maxmemory', '0');
  await expect.poll(() => statusAtSocket(served)).toBe(200);
  await endAsItCan(served);
  const again = await startServer(cella, redis.url);
  expect(await (await CheckedSession.of(again, 'fresh')).run('6 * 7')).toMatchObject({ value: 42 });
  await endInOrder(again);
});

test('a distant Redis with breaking connections is slow, and nothing else', async () => {
  using cella = new Cella();
  const redis = await startRedis();
  await using proxy = await CuttingProxy.to(redis.url.replace('redis:', 'http:'));
  const served = await startServer(cella, proxy.url.replace('http:', 'redis:'));
  const sessions = await twoSessions(served);
  proxy.latencyMs = 40;
  const load = underLoad(sessions);
  for (let n = 0; n < 3; n++) {
    await load.more(2);
    proxy.cut();
  }
  // More than a call waits in silence: the server sees that there is somebody.
  proxy.latencyMs = 150;
  await load.more(1);
  for (const code of await load.stop()) expect(code).toBe('STORAGE_UNREACHABLE');
  proxy.latencyMs = 0;
  for (const session of sessions) {
    await expect.poll(() => session.run('1')).toMatchObject({ value: 1 });
    await session.check();
  }
  await endInOrder(served);
});

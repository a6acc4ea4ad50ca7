/** Sessions whose names lie in Redis: they wake in other processes, and outlive a server that comes and goes. */

import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listKernels, RedisStorage } from '../../../src/index.ts';
import { collect, openSession, scratchFolder } from '../../support/kernels/session.ts';
import { newStorage } from '../../support/namespaces/namespaces.ts';
import { RedisServer } from '../../support/servers/redis.ts';

const run = promisify(execFile);
let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

const openStorage = () => RedisStorage.open(redis.url, { prefix: randomUUID() });

describe('a session in Redis', () => {
  it('resumes in another process, on another data folder', async () => {
    const storage = await newStorage({ openStorage });
    const session = await openSession({ storage, agentKey: 'traveller' });
    await session.run('x = 41\ndef twice(n): return n * 2');
    await session.close();
    const config = JSON.stringify(storage.toBootstrapConfig());
    const program = new URL('../../support/kernels/open-elsewhere.ts', import.meta.url).pathname;
    const argv = [program, config, await scratchFolder(), 'traveller', 'x += 1; twice(x)'];
    const { stdout } = await run(process.execPath, argv);
    expect(JSON.parse(stdout)).toEqual({ repr: '84', restored: expect.arrayContaining(['x', 'twice']) });
    const again = await openSession({ storage, agentKey: 'traveller' });
    expect(await again.run('x')).toMatchObject({ value: 42, resumed: { lost: [] } });
    expect(await listKernels({ storage })).toMatchObject([{ agentKey: 'traveller', state: 'live' }]);
  });

  it('has one owner, wherever it is opened', async () => {
    const storage = await newStorage({ openStorage });
    await openSession({ storage, agentKey: 'mine' });
    await expect(openSession({ storage, agentKey: 'mine' })).rejects.toMatchObject({
      code: 'KEY_BUSY',
      details: { pid: process.pid },
    });
  });

  it('is destroyed with everything of its agent key', async () => {
    const storage = await newStorage({ openStorage });
    const session = await openSession({ storage, agentKey: 'gone' });
    await session.run('x = 1');
    await session.save();
    await session.destroy();
    expect(await collect(storage.records.list())).toEqual([]);
    expect(await storage.checkpoints.list('gone')).toEqual([]);
  });

  it('continues while Redis is unreachable: calls that need Redis fail within moments, and work when it is back', async () => {
    const storage = await newStorage({ openStorage });
    const session = await openSession({ storage, agentKey: 'patient' });
    await session.run('x = 1; artifacts.save("a", 1)');
    await redis.stop();
    const began = performance.now();
    const { error } = await session.run('x += 1; artifacts.load("a")');
    expect(error).toMatchObject({ name: 'CellaRuntimeError', message: expect.stringContaining('127.0.0.1') });
    expect(performance.now() - began).toBeLessThan(15_000);
    await expect(RedisStorage.open(redis.url, { prefix: 'p' })).rejects.toMatchObject({ code: 'STORAGE_UNREACHABLE' });
    expect(await session.run('x')).toMatchObject({ value: 2 });
    await redis.restart();
    await expect.poll(async () => (await session.run('artifacts.load("a")')).value, { timeout: 20_000 }).toBe(1);
    await session.run('y = 3');
    await session.close();
    const again = await openSession({ storage, agentKey: 'patient' });
    expect(await again.run('[x, y]')).toMatchObject({ value: [2, 3] });
  });
});

/** A Redis server that is not there, goes away, comes back, does not answer, or refuses. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { inspect, promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { storageFromBootstrap } from '../../../src/storage/open-storage.ts';
import { redisProblems } from '../../../src/storage/redis/connection.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import {
  bytesOf,
  collect,
  eventsOf,
  failureOf,
  idsOf,
  keep,
  plainFacts,
  recordOf,
  save,
} from '../../contract/storage/samples.ts';
import { RedisServer } from '../../support/servers/redis.ts';

async function server(args: readonly string[] = []): Promise<RedisServer> {
  const redis = await RedisServer.start({ args });
  onTestFinished(() => redis.remove());
  return redis;
}

async function opened(url: string, prefix = 'test'): Promise<RedisStorage> {
  const storage = await RedisStorage.open(url, { prefix });
  onTestFinished(() => storage.close());
  return storage;
}

/** One call of each kind. */
const calls: [string, (storage: Storage) => Promise<unknown>][] = [
  ['checkpoints.begin', ({ checkpoints }) => checkpoints.begin('a')],
  ['checkpoints.list', ({ checkpoints }) => checkpoints.list('a')],
  ['records.get', ({ records }) => records.get('a')],
  ['records.put', ({ records }) => records.put('a', recordOf('a'))],
  ['records.list', ({ records }) => collect(records.list())],
  ['events.append', ({ events }) => events.append('a', [1])],
  ['events.read', ({ events }) => collect(events.read('a'))],
  ['events.trim', ({ events }) => events.trim('a', { maxEvents: 1000 })],
  ['locks.acquire', ({ locks }) => locks.acquire('free')],
  ['locks.holder', ({ locks }) => locks.ownerOf('a')],
  ['transcripts.put', ({ transcripts }) => transcripts.put('a', 'one', { revision: 5, text: 'x' })],
  ['tools.list', ({ tools }) => tools.list()],
  ['tools.put', ({ tools }) => tools.put('late', 'x')],
  ['skills.version', ({ skills }) => skills.version()],
  ['artifacts.begin', ({ artifacts }) => artifacts.begin('late')],
  ['artifacts.get', ({ artifacts }) => artifacts.get('late')],
  ['deps.add', ({ deps }) => deps.add('late')],
  ['deps.list', ({ deps }) => deps.list()],
  ['deleteKey', (storage) => storage.deleteKey('nobody')],
];

/** The requirement is a second; a machine that has other things to do gets some more. */
const SOON_MS = 10_000;

async function expectUnreachable(call: () => Promise<unknown>, where: string): Promise<void> {
  const start = performance.now();
  const error = await failureOf(call());
  expect(error).toMatchObject({ code: 'STORAGE_UNREACHABLE', message: expect.stringContaining(where) });
  expect(performance.now() - start).toBeLessThan(SOON_MS);
}

describe('a missing Redis', () => {
  it('is reported by open, with its address and advice', async () => {
    const redis = await server();
    await opened(redis.url); // the client's own code is loaded by then
    await redis.stop();
    await expectUnreachable(() => RedisStorage.open(redis.url), `${redis.url} (connection refused). Start it`);
    await redis.restart();
    await (await opened(redis.url)).deps.add('requests');
  });

  it('is reported by every call during an outage, and calls work when it is back', { timeout: 60_000 }, async () => {
    // It is killed, and must not forget what it has just said.
    const redis = await server(['--appendfsync', 'always']);
    const storage = await opened(redis.url);
    await keep(storage, 'a', Buffer.alloc(9_000_000, 'x'));
    await save(storage, 'a', 'one');
    await storage.events.append('a', ['before']);
    const lock = await storage.locks.acquire('a');
    const artifact = await storage.artifacts.begin('b');
    await redis.stop();
    for (const [, call] of calls) await expectUnreachable(() => call(storage), redis.url);
    const started = performance.now();
    await Promise.all(calls.map(([, call]) => failureOf(call(storage))));
    expect(performance.now() - started).toBeLessThan(SOON_MS);
    await redis.restart();
    // The very next call finds the server again.
    expect(await storage.events.append('a', ['after'])).toBe(2);
    for (const [, call] of calls) await call(storage);
    expect((await bytesOf(storage, 'a'))?.length).toBe(9_000_000);
    expect(await idsOf(storage, 'a')).toEqual(['one']);
    expect((await eventsOf(storage, 'a')).map(({ event }) => event)).toEqual(['before', 'after', 1]);
    expect(lock.held).toBe(true);
    expect((await failureOf(storage.locks.acquire('a'))).code).toBe('KEY_BUSY');
    await artifact.write(Buffer.from('written after'));
    await artifact.finish(plainFacts);
    expect((await bytesOf(storage, 'b'))?.toString()).toBe('written after');
  });

  it('does not prevent close from ending', async () => {
    const redis = await server();
    const storage = await RedisStorage.open(redis.url);
    await storage.locks.acquire('a');
    const writer = await storage.artifacts.begin('a');
    await writer.write(Buffer.alloc(9_000_000));
    await storage.checkpoints.begin('a');
    await redis.stop();
    const start = performance.now();
    await storage.close();
    await storage.close();
    expect(performance.now() - start).toBeLessThan(SOON_MS);
    expect((await failureOf(storage.deps.list())).code).toBe('STORAGE_FAILED');
  });
});

it('a process without work ends, even if it did not close its storage', async () => {
  const redis = await server();
  const program = new URL('../../../src/storage/redis/redis-storage.ts', import.meta.url).href;
  const code = `
    import { RedisStorage } from ${JSON.stringify(program)};
    const storage = await RedisStorage.open(${JSON.stringify(redis.url)});
    await storage.locks.acquire('a');
    console.log(await storage.deps.add('requests'));
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    timeout: 20_000,
  });
  expect(stdout).toBe('true\n');
  expect(await (await opened(redis.url, 'cella')).locks.ownerOf('a')).toBeUndefined();
});

describe('a server that does not answer', () => {
  it('is reported by every call, and calls work when it answers again', { timeout: 60_000 }, async () => {
    const redis = await server();
    const storage = await opened(redis.url);
    await storage.events.append('a', ['before']);
    await redis.freeze();
    onTestFinished(() => redis.thaw());
    const start = performance.now();
    const errors = await Promise.all(calls.map(([, call]) => failureOf(call(storage))));
    expect(performance.now() - start).toBeLessThan(SOON_MS);
    expect(new Set(errors.map(({ code }) => code))).toEqual(new Set(['STORAGE_UNREACHABLE']));
    await expectUnreachable(() => RedisStorage.open(redis.url), redis.url);
    const other = performance.now();
    await expectUnreachable(() => storage.deps.list(), redis.url);
    expect(performance.now() - other).toBeLessThan(SOON_MS);
    await redis.thaw();
    // What was under way may have been carried out or not; it is not carried out twice.
    const last = await storage.events.last('a');
    expect(last).toBeLessThanOrEqual(2);
    expect(await storage.events.append('a', ['after'])).toBe(last + 1);
  });
});

describe('a server that refuses', () => {
  const secret = 's3cret-w0rd';

  it('a password is reported without the password', async () => {
    const redis = await server(['--requirepass', secret]);
    const at = (user: string) => `redis://${user}127.0.0.1:${redis.port}`;
    for (const user of ['', ':wrong-w0rd@', 'nobody:wrong-w0rd@']) {
      const error = await failureOf(RedisStorage.open(at(user)));
      expect(error.code).toBe('STORAGE_UNREACHABLE');
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('wrong-w0rd');
    }
    const storage = await opened(at(`:${secret}@`));
    await storage.deps.add('requests');
    expect(inspect(storage, { depth: 10, showHidden: true })).not.toContain(secret);
    const again = await storageFromBootstrap(JSON.parse(JSON.stringify(storage.toBootstrapConfig())));
    expect(await again.deps.list()).toEqual(['requests']);
    await again.close();
    await redis.stop();
    const gone = await failureOf(storage.deps.list());
    expect(inspect(gone, { depth: 10, showHidden: true })).not.toContain(secret);
  });

  it('to write is reported as a failure of the storage, and reading works', async () => {
    const redis = await server(['--maxmemory', '4mb']);
    const storage = await opened(redis.url);
    await storage.deps.add('requests');
    const error = await failureOf(keep(storage, 'a', Buffer.alloc(20_000_000)));
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message: expect.stringContaining('maxmemory') });
    expect(await storage.deps.list()).toEqual(['requests']);
    expect(await storage.artifacts.list()).toEqual([]);
  });
});

describe('an address', () => {
  const secret = 's3cret-w0rd';
  it.each([
    ['nonsense', /not a URL/],
    ['http://127.0.0.1:6379', /redis:\/\//],
    [`redis://:${secret}@127.0.0.1:99999`, /not a URL/],
    [`redis://:${secret}@127.0.0.1/x`, /database number/],
    [`redis://:${secret}@127.0.0.1/0?x=${secret}`, /database number/],
    [`redis://:${secret}%@127.0.0.1`, /%/],
    ['redis://', /host/],
    [7 as never, /not a URL/],
  ])('%j is refused, and what it holds is not shown', async (url, reason) => {
    const error = await failureOf(RedisStorage.open(url));
    expect(error).toMatchObject({ code: 'INVALID_OPTIONS', message: expect.stringMatching(reason) });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain(secret);
  });

  it.each(['', 'a|b', 'a b', 'ä', 'a*', 'x'.repeat(101), 7 as never])('with prefix %j is refused', async (prefix) => {
    const error = await failureOf(RedisStorage.open('redis://127.0.0.1:1', { prefix }));
    expect(error).toMatchObject({ code: 'INVALID_OPTIONS', message: expect.stringContaining('prefix') });
  });
});

describe('settings that would lose data', () => {
  let durable: RedisServer;
  beforeAll(async () => {
    durable = await RedisServer.start();
  });
  afterAll(() => durable?.remove());

  it('are none if Redis keeps a log', async () => {
    expect(await (await opened(durable.url)).problems()).toEqual([]);
  });

  it.each([
    [['--appendonly', 'no', '--save', ''], [/would lose everything in a restart/]],
    [['--appendonly', 'no', '--save', '3600 1'], [/last minutes.*save 3600 1/]],
    [['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'], [/allkeys-lru.*noeviction/]],
    [['--maxmemory', '100mb', '--maxmemory-policy', 'noeviction'], []],
    [['--appendonly', 'no', '--rename-command', 'CONFIG', ''], [/does not report whether it saves/]],
  ])('are reported for a Redis with %j', async (args, expected) => {
    const redis = await server(args);
    const problems = await (await opened(redis.url)).problems();
    expect(problems).toEqual(expected.map((pattern) => expect.stringMatching(pattern)));
    expect(await redisProblems(redis.url)).toEqual(problems);
    for (const problem of problems) expect(problem).toContain(redis.url);
  });

  it('are reported for a Redis that is too old', async () => {
    // No such server can be had any more: this one only says that it is.
    const info = 'redis_version:5.0.7\r\naof_enabled:1\r\nmaxmemory:0\r\n';
    const old = createServer((socket) => {
      socket.on('error', () => {});
      socket.on('data', (data) => {
        for (const [word] of String(data).matchAll(/PING|INFO/g)) {
          socket.write(word === 'PING' ? '+PONG\r\n' : `$${info.length}\r\n${info}\r\n`);
        }
      });
    }).listen(0, '127.0.0.1');
    onTestFinished(() => void old.close());
    await once(old, 'listening');
    const { port } = old.address() as AddressInfo;
    const problems = await redisProblems(`redis://127.0.0.1:${port}`);
    expect(problems).toEqual([expect.stringMatching(/has version 5\.0\.7; Cella needs 6\.2/)]);
  });
});

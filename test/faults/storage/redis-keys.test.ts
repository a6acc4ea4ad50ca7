/** The keys in a Redis server: whose they are, how large, and what becomes of those that nobody needs. */

import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { contents, fill as fillAll, writes } from '../../contract/storage/fences.ts';
import {
  bytesOf,
  eventsOf,
  failureOf,
  idsOf,
  keep,
  recordOf,
  save,
  sha256,
  textsOf,
  transcriptOf,
} from '../../contract/storage/samples.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { Child } from './child-processes.ts';

let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

async function opened(prefix: string): Promise<RedisStorage> {
  const storage = await RedisStorage.open(redis.url, { prefix });
  onTestFinished(() => storage.close());
  return storage;
}

/** Another client, which sees the server as it is. */
async function look() {
  const client = createClient({ url: redis.url });
  await client.connect();
  onTestFinished(() => client.destroy());
  return client;
}

const agents = ['a', 'b|events', '"', 'b:x|records', '*', 'tools'];

/** Leaves a mark in every part. */
async function fill(storage: Storage, mark: string): Promise<void> {
  for (const agent of agents) {
    await storage.records.put(agent, recordOf(agent, { workspaceOf: mark }));
    await storage.events.append(agent, [mark]);
    await save(storage, agent, 'one', [Buffer.from(mark)]);
    await storage.transcripts.put(agent, 'one', { revision: 1, text: mark });
    await (await storage.locks.acquire(agent)).release();
  }
  await storage.tools.put('one', mark);
  await storage.skills.put('one', mark);
  await keep(storage, 'one', Buffer.from(mark));
  await storage.deps.add(`one==${mark.length}`);
  await storage.documents.put('one', 'one', mark);
}

async function marks(storage: Storage): Promise<unknown[]> {
  const all: unknown[] = [];
  for (const agent of agents) {
    all.push((await storage.records.get(agent))?.workspaceOf);
    all.push((await eventsOf(storage, agent)).map(({ event }) => event));
    all.push((await idsOf(storage, agent)).length && (await textsOf(storage, agent, 'one')));
    all.push((await transcriptOf(storage.transcripts, agent, 'one'))?.text);
  }
  all.push(
    (await storage.tools.list()).map(({ text }) => text),
    (await storage.skills.list()).map(({ text }) => text),
  );
  all.push((await bytesOf(storage, 'one'))?.toString(), await storage.deps.list());
  all.push((await storage.documents.list('one')).documents.map(({ value }) => value));
  return all;
}

async function empty(storage: Storage): Promise<void> {
  for (const agent of agents) await storage.deleteKey(agent);
  for (const store of [storage.tools, storage.skills, storage.artifacts]) await store.delete('one');
  await storage.deps.remove('one');
  await storage.documents.delete('one', 'one');
}

describe('two prefixes', () => {
  it('never share data, even if one is the beginning of the other or looks like a part of its keys', async () => {
    const prefixes = ['a', 'a:b', 'a:tools', 'a:records', 'ab', 'a-', 'A'];
    const storages = await Promise.all(prefixes.map(opened));
    for (const [index, storage] of storages.entries()) await fill(storage, 'x'.repeat(index + 1));
    const filled = await Promise.all(storages.map(marks));
    expect(new Set(filled.map((each) => JSON.stringify(each))).size).toBe(prefixes.length);
    const keys = await (await look()).keys('*');
    const owners = keys.map((key) => key.slice(0, key.indexOf('|')));
    expect(new Set(owners)).toEqual(new Set(prefixes));
    for (const [index, storage] of storages.entries()) {
      await empty(storage);
      const left = await Promise.all(storages.map(marks));
      expect(left.slice(index + 1)).toEqual(filled.slice(index + 1));
    }
  });

  it('have locks of their own', async () => {
    const [one, other] = [await opened('l'), await opened('l:m')];
    const lock = await one.locks.acquire('a');
    expect((await other.locks.acquire('a')).held).toBe(true);
    expect(lock.held).toBe(true);
  });
});

describe('a value', () => {
  it('over 8 MB is stored in chunks', async () => {
    const storage = await opened('large');
    const bytes = Buffer.alloc(20_000_000, 'some bytes ');
    await keep(storage, 'a', bytes);
    await save(storage, 'a', 'one', [bytes]);
    const text = 'line\n'.repeat(4_000_000);
    await storage.transcripts.put('a', 'one', { revision: 1, text });
    const client = await look();
    const lengths = await Promise.all((await client.keys('large|chunk|*')).map((key) => client.strLen(key)));
    expect(lengths).toHaveLength(9);
    expect(Math.max(...lengths)).toBe(8 * 1024 * 1024);
    expect(sha256((await bytesOf(storage, 'a')) ?? Buffer.alloc(0))).toBe(sha256(bytes));
    expect((await transcriptOf(storage.transcripts, 'a', 'one'))?.text === text).toBe(true);
  });

  it('whose chunk is gone is reported as damaged', async () => {
    const storage = await opened('gone');
    await keep(storage, 'a', Buffer.alloc(20_000_000));
    const manifest = await save(storage, 'a', 'one', [Buffer.alloc(100), Buffer.alloc(9_000_000)]);
    const client = await look();
    for (const key of await client.keys('gone|chunk|*|1')) await client.del(key);
    expect((await failureOf(bytesOf(storage, 'a'))).code).toBe('STORAGE_FAILED');
    expect((await storage.checkpoints.read('a', manifest, 0))?.length).toBe(100);
    expect(await storage.checkpoints.read('a', manifest, 1)).toBeUndefined();
  });

  it('that is not a manifest is left out, reported, and can be deleted', async () => {
    const storage = await opened('broken');
    await save(storage, 'a', 'one');
    await save(storage, 'a', 'two');
    await (await look()).hSet('broken|checkpoints|"a"', '"one"', 'garbage');
    expect(await idsOf(storage, 'a')).toEqual(['two']);
    expect(await storage.checkpoints.damaged('a')).toMatchObject([{ id: 'one' }]);
    expect(await storage.checkpoints.delete('a', 'one')).toBe(true);
    expect(await storage.checkpoints.damaged('a')).toEqual([]);
  });
});

describe('a document', () => {
  it.each(['garbage', '7 {', '', ' {}'])(
    'that is %j is reported, left out of the others, and can be replaced',
    async (text) => {
      const storage = await opened('torn');
      await storage.documents.put('things', 'a', 1);
      await storage.documents.put('things', 'b', 2);
      await (await look()).hSet('torn|documents|things', 'a', text);
      expect(await failureOf(storage.documents.get('things', 'a'))).toMatchObject({
        code: 'STORAGE_FAILED',
        details: { collection: 'things', id: 'a' },
      });
      const { documents, damaged } = await storage.documents.list('things');
      expect(documents.map(({ id }) => id)).toEqual(['b']);
      expect(damaged).toMatchObject([{ id: 'a' }]);
      expect(await storage.documents.put('things', 'a', 3, { ifRevision: 0 })).toBeUndefined();
      expect(await storage.documents.put('things', 'a', 3)).toBeGreaterThan(0);
      expect((await storage.documents.get('things', 'a'))?.value).toBe(3);
      expect(await storage.documents.delete('things', 'a')).toBe(true);
    },
  );
});

describe('unneeded data', () => {
  it('expires: chunks of an artifact that was replaced or deleted', async () => {
    const storage = await opened('old');
    const client = await look();
    await keep(storage, 'a', Buffer.from('first'));
    const [first = ''] = await client.keys('old|chunk|*');
    expect(await client.ttl(first)).toBe(-1);
    await keep(storage, 'a', Buffer.from('second'));
    expect(await client.ttl(first)).toBeGreaterThan(0);
    await storage.artifacts.delete('a');
    const left = await Promise.all((await client.keys('old|*')).map((key) => client.ttl(key)));
    expect(left).toHaveLength(2);
    for (const seconds of left) expect(seconds).toBeGreaterThan(0);
  });

  it('expires: leftovers of a killed writer, whose lock is free at once', async () => {
    const client = await look();
    const child = Child.on({ type: 'redis', url: redis.url, prefix: 'killed' }, 'hold');
    const { holding } = await child.next();
    const storage = await opened('killed');
    const error = await failureOf(storage.locks.acquire('a'));
    expect(error).toMatchObject({ code: 'KEY_BUSY', details: { pid: holding } });
    expect(await storage.locks.ownerOf('a')).toMatchObject({ pid: holding });
    await child.kill();
    expect(await storage.locks.ownerOf('a')).toBeUndefined();
    const lock = await storage.locks.acquire('a');
    expect(lock.held).toBe(true);
    await lock.release();
    // The count of locks stays: no token is ever given twice.
    const keys = (await client.keys('killed|*')).filter((key) => key !== 'killed|locks-count');
    expect(keys).toHaveLength(2);
    for (const key of keys) expect(await client.ttl(key)).toBeGreaterThan(0);
    expect(await storage.artifacts.list()).toEqual([]);
  });

  it('is gone at once: aborted writes, and deleted checkpoints', async () => {
    const storage = await opened('aborted');
    await save(storage, 'a', 'one', [Buffer.alloc(9_000_000)]);
    const writer = await storage.artifacts.begin('a');
    await writer.write(Buffer.alloc(9_000_000));
    await writer.abort();
    await storage.deleteKey('a');
    expect(await (await look()).keys('aborted|*')).toEqual([]);
  });
});

describe('a lock', () => {
  it('that another process has acquired blocks every write of its first owner, however late', async () => {
    const [storage, other] = [await opened('fence'), await opened('fence')];
    const client = await look();
    const lock = await storage.locks.acquire('a');
    const own = storage.fenced(lock);
    await fillAll(own);
    // As when its process was stopped for longer than it lasts: nobody has told it yet.
    await client.del('fence|lock|"a"');
    await own.events.append('a', ['still mine']);
    const taken = await other.locks.acquire('a');
    const before = await contents(other);
    const states: string[] = [];
    lock.watch((state) => states.push(state));
    for (const [name, write] of writes)
      expect([name, (await failureOf(write(own))).code]).toEqual([name, 'LEASE_LOST']);
    expect(await contents(other)).toEqual(before);
    expect([states, lock.held]).toEqual([['lost'], false]);
    // Whoever still follows its log gets the rest of it.
    expect((await eventsOf(own, 'a')).map(({ event }) => event)).toEqual(['early', 'still mine']);
    await other.fenced(taken).events.append('a', ['theirs']);
    // Nor after the other has let go of it.
    await taken.release();
    expect((await failureOf(own.events.append('a', ['late']))).code).toBe('LEASE_LOST');
    expect(await other.events.last('a')).toBe(3);
  });

  it('that could not be renewed for long is uncertain, and held again if nobody has taken it', async () => {
    const storage = await RedisStorage.open(redis.url, { prefix: 'doubt', leaseMs: 300 });
    onTestFinished(() => storage.close());
    const lock = await storage.locks.acquire('a');
    const states: string[] = [];
    lock.watch((state) => states.push(state));
    await redis.freeze();
    await vi.waitFor(() => expect(states.at(-1)).toBe('uncertain'), { timeout: 10_000 });
    expect(lock.held).toBe(false);
    await redis.thaw();
    await vi.waitFor(() => expect(states.at(-1)).toBe('held'), { timeout: 10_000 });
    expect(await storage.fenced(lock).events.append('a', [1])).toBe(1);
  });

  it('expires if nobody renews it', async () => {
    const storage = await opened('lease');
    await storage.locks.acquire('a');
    expect(await (await look()).pTTL('lease|lock|"a"')).toBeGreaterThan(0);
  });

  /** Lets the storage renew its locks. */
  async function renewed(): Promise<void> {
    await vi.advanceTimersByTimeAsync(6000);
  }

  it('is renewed, acquired again if Redis has lost it, and lost if another has it', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const storage = await opened('renew');
    const client = await look();
    const lock = await storage.locks.acquire('a');
    const key = 'renew|lock|"a"';
    await client.pExpire(key, 10_000);
    await renewed();
    await vi.waitFor(async () => expect(await client.pTTL(key)).toBeGreaterThan(15_000), { timeout: 20_000 });
    await client.del(key);
    await renewed();
    await vi.waitFor(async () => expect(await storage.locks.ownerOf('a')).toMatchObject({ pid: process.pid }), {
      timeout: 20_000,
    });
    expect(lock.held).toBe(true);
    const far = { grip: 'x', holder: '1-1-abc-1-abc', pid: 1, host: 'far', command: 'cella', since: 1 };
    await client.set(key, JSON.stringify(far));
    await renewed();
    await vi.waitFor(() => expect(lock.held).toBe(false), { timeout: 20_000 });
    // Letting go of what was lost takes nothing from whoever has it.
    await lock.release();
    expect(await storage.locks.ownerOf('a')).toMatchObject({ host: 'far' });
  });

  it('of a process that is not visible is held until it expires', async () => {
    const storage = await opened('far');
    const client = await look();
    const far = { grip: 'x', holder: '1-1-abc-1-abc', pid: 1, host: 'far', command: 'cella', since: 1 };
    await client.set('far|lock|"a"', JSON.stringify(far), { PX: 2000 });
    expect(await failureOf(storage.locks.acquire('a'))).toMatchObject({ code: 'KEY_BUSY', details: { host: 'far' } });
    expect((await storage.locks.acquire('a', { waitMs: 20_000 })).held).toBe(true);
  });
});

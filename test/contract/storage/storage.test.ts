import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { loadSqlite } from '../../../src/storage/file/database.ts';
import { FileStorage } from '../../../src/storage/file/file-storage.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { expectNoStall } from '../../support/servers/stalls.ts';
import { collect, transcriptOf } from './samples.ts';
import { storageContract } from './storage.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-storage-'));
let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(async () => {
  await redis?.remove();
  rmSync(folder, { recursive: true, force: true });
});

storageContract('file', (place, options) => FileStorage.open(join(folder, place), options));
storageContract('redis', (place, options) => RedisStorage.open(redis.url, { prefix: place, ...options }));

describe('documents of an earlier version are found by their fields', () => {
  const bob = { where: { field: 'ownerId', value: 'bob' } };
  const idsOf = async ({ documents }: Pick<Storage, 'documents'>) =>
    (await documents.list('sessions', bob)).documents.map(({ id }) => id);

  it('in files', async () => {
    const place = join(folder, randomUUID());
    {
      await using storage = await FileStorage.open(place);
      for (const id of ['a', 'b', 'c']) await storage.documents.put('sessions', id, { ownerId: 'bob' });
    }
    const { DatabaseSync } = loadSqlite();
    const database = new DatabaseSync(join(place, 'cella.db'));
    database.exec(`DROP TABLE transcripts; ${OLD_TRANSCRIPTS}`);
    database.exec("DROP TABLE document_fields; UPDATE documents SET document = '{' WHERE id = 'b'");
    database.exec('PRAGMA user_version = 4');
    database.close();
    await using storage = await FileStorage.open(place);
    expect(await idsOf(storage)).toEqual(['a', 'c']);
    expect(await storage.documents.count('sessions')).toBe(3);
  });

  it('in Redis, also while that version still writes', async () => {
    const prefix = randomUUID();
    const client = createClient({ url: redis.url });
    await client.connect();
    onTestFinished(() => client.destroy());
    await using storage = await RedisStorage.open(redis.url, { prefix });
    for (const id of ['a', 'b', 'c']) await storage.documents.put('sessions', id, { ownerId: 'bob' });
    await client.sendCommand(['DEL', `${prefix}|documents-entries|sessions`, `${prefix}|documents-fields|sessions`]);
    expect(await idsOf(storage)).toEqual(['a', 'b', 'c']);
    await client.sendCommand(['HSET', `${prefix}|documents|sessions`, 'd', '1000 {"ownerId":"bob"}', 'e', 'damaged']);
    await client.sendCommand(['ZADD', `${prefix}|documents-order|sessions`, '0', 'd', '0', 'e']);
    expect(await idsOf(storage)).toEqual(['a', 'b', 'c', 'd']);
    await client.sendCommand(['HDEL', `${prefix}|documents|sessions`, 'a']);
    await client.sendCommand(['ZREM', `${prefix}|documents-order|sessions`, 'a']);
    expect(await idsOf(storage)).toEqual(['b', 'c', 'd']);
    expect(await storage.documents.count('sessions', bob.where)).toBe(3);
  });
});

/** Of versions 2 to 5. */
const OLD_TRANSCRIPTS = `CREATE TABLE transcripts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  text TEXT NOT NULL, UNIQUE (agent, id)
)`;

describe('transcripts of an earlier version can be read and replaced', () => {
  const text = `${'\u{1f40d} and a line\n'.repeat(100_000)}\ud800`;

  async function check({ transcripts }: Storage): Promise<void> {
    expect(await transcripts.list('a/b')).toEqual(['two', 'one']);
    for (const id of ['one', 'two']) expect(await transcriptOf(transcripts, 'a/b', id)).toEqual({ revision: 3, text });
    expect(await transcripts.bytes('a/b')).toBe(2 * Buffer.byteLength(JSON.stringify(text)));
    const put = (more: string) => transcripts.put('a/b', 'one', { revision: 4, text: more, ifLonger: true });
    expect(await put(text)).toBe(false);
    expect(await put(`${text}x`)).toBe(true);
    expect(await transcriptOf(transcripts, 'a/b', 'one')).toEqual({ revision: 4, text: `${text}x` });
    expect(await transcripts.delete('a/b', 'two')).toBe(true);
    expect(await transcripts.list('a/b')).toEqual(['one']);
  }

  it('in files', async () => {
    const place = join(folder, randomUUID());
    {
      await using storage = await FileStorage.open(place);
      await storage.deps.list();
    }
    const { DatabaseSync } = loadSqlite();
    const database = new DatabaseSync(join(place, 'cella.db'));
    database.exec(`DROP TABLE transcripts; ${OLD_TRANSCRIPTS}; PRAGMA user_version = 5`);
    const insert = database.prepare('INSERT INTO transcripts (agent, id, revision, text) VALUES (?, ?, ?, ?)');
    for (const id of ['two', 'one']) insert.run('"a/b"', JSON.stringify(id), 3, JSON.stringify(text));
    database.close();
    await using storage = await FileStorage.open(place);
    await check(storage);
    const files = readdirSync(join(place, 'transcripts'), { recursive: true, withFileTypes: true });
    expect(files.filter((file) => file.isFile())).toHaveLength(1);
  });

  it('in Redis', async () => {
    const prefix = randomUUID();
    const client = createClient({ url: redis.url });
    await client.connect();
    onTestFinished(() => client.destroy());
    await using storage = await RedisStorage.open(redis.url, { prefix });
    for (const id of ['two', 'one']) await storage.transcripts.put('a/b', id, { revision: 3, text });
    const key = `${prefix}|transcripts|"a/b"`;
    for (const [id, value] of Object.entries(await client.hGetAll(key))) {
      await client.hSet(key, id, value.split(' ').slice(0, 4).join(' '));
    }
    await check(storage);
  });
});

describe('very many items stop no event loop', { timeout: 300_000 }, () => {
  const quiet = async (work: () => Promise<unknown>) => void (await expectNoStall(work));

  describe('in files', () => {
    const MANY = 120_000;
    const place = join(folder, 'many');
    let storage: Storage;
    beforeAll(async () => {
      storage = await FileStorage.open(place);
      for (const [name, ending] of [
        ['artifacts', ''],
        ['skills', '.py'],
      ] as const) {
        mkdirSync(join(place, name), { recursive: true });
        for (let n = 0; n < MANY; n++) writeFileSync(join(place, name, `f${n}${ending}`), '');
      }
    }, 300_000);
    afterAll(() => storage?.close());

    it('artifacts: a page of them, one by a name with several spellings, and their number', async () => {
      const before = process.memoryUsage().rss;
      await quiet(async () => expect(await storage.artifacts.list({ after: 'f5', limit: 10 })).toHaveLength(10));
      await quiet(async () => expect(await storage.artifacts.get('é')).toBeUndefined());
      await quiet(async () => expect(await storage.artifacts.holds(MANY + 1)).toBe(false));
      expect(await storage.artifacts.holds(MANY)).toBe(true);
      expect(process.memoryUsage().rss - before).toBeLessThan(400_000_000);
    });

    it('skills: they are refused, with advice', async () => {
      await quiet(async () => {
        const refused = expect.objectContaining({
          code: 'STORAGE_FAILED',
          message: expect.stringContaining('more than 100000 files'),
        });
        await expect(storage.skills.list()).rejects.toEqual(refused);
        await expect(storage.skills.version()).rejects.toEqual(refused);
      });
    });
  });

  describe('in Redis', () => {
    const MANY = 50_000;
    const place = 'many';
    let storage: Storage;
    beforeAll(async () => {
      storage = await RedisStorage.open(redis.url, { prefix: place });
      const fill = `for n = 0, ${MANY - 1} do
        local id = '"' .. string.format('%06d', n) .. '"'
        redis.call('HSET', 'many|skills', 'f' .. n, '1 text')
        redis.call('HSET', 'many|artifacts', 'f' .. n, 'damaged')
        redis.call('HSET', 'many|deps', 'f' .. n, 'f' .. n .. '==1')
        redis.call('HSET', 'many|checkpoints|"a"', id, n .. ' content 0 {}')
        redis.call('HSET', 'many|transcripts|"a"', id, '1 content 1 3')
        redis.call('ZADD', 'many|transcripts-order|"a"', n, id)
        redis.call('ZADD', 'many|records-order', n, id)
      end`;
      await redis.command('EVAL', fill, '0');
    }, 300_000);
    afterAll(() => storage?.close());

    const works: Record<string, [work: () => Promise<unknown>, result: unknown]> = {
      artifacts: [() => storage.artifacts.list({ limit: 10 }), []],
      skills: [async () => (await storage.skills.list()).length, MANY],
      deps: [async () => (await storage.deps.list()).at(-1), 'f9999==1'],
      records: [() => collect(storage.records.list()), []],
      transcripts: [async () => (await storage.transcripts.list('a')).at(-1), '049999'],
      'bytes of transcripts': [() => storage.transcripts.bytes('a'), 3 * MANY],
      checkpoints: [async () => (await storage.checkpoints.damaged('a')).at(-1)?.id, '049999'],
    };
    for (const [name, [work, result]] of Object.entries(works)) {
      it(name, () => quiet(async () => expect(await work()).toEqual(result)));
    }
  });
});

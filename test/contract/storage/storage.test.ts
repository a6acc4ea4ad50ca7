import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Storage } from '../../../src/storage/contract.ts';
import { loadSqlite } from '../../../src/storage/file/database.ts';
import { FileStorage } from '../../../src/storage/file/storage.ts';
import { RedisStorage } from '../../../src/storage/redis/storage.ts';
import { RedisServer } from '../../support/servers/redis.ts';
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

describe('documents that an earlier version has written are found by their fields', () => {
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
    database.exec("DROP TABLE document_fields; UPDATE documents SET document = '{' WHERE id = 'b'");
    database.exec('PRAGMA user_version = 4');
    database.close();
    await using storage = await FileStorage.open(place);
    expect(await idsOf(storage)).toEqual(['a', 'c']);
    expect(await storage.documents.count('sessions')).toBe(3);
  });

  it('in Redis, also where that version still writes', async () => {
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

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { FileStorage } from '../../src/storage/file/storage.ts';
import { RedisStorage } from '../../src/storage/redis/storage.ts';
import { RedisServer } from '../support/redis.ts';
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

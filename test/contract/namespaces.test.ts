import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import { FileStorage, RedisStorage } from '../../src/index.ts';
import { everything } from '../support/depth.ts';
import { RedisServer } from '../support/redis.ts';
import { openSession, scratchFolder } from '../support/session.ts';
import { namespacesContract } from './namespaces.ts';

let redis: RedisServer;
beforeAll(async () => {
  redis = await RedisServer.start();
});
afterAll(() => redis?.remove());

namespacesContract('subprocess with file storage', {
  open: openSession,
  openStorage: async () => await FileStorage.open(await scratchFolder()),
});
namespacesContract('subprocess with Redis storage', {
  open: openSession,
  openStorage: () => RedisStorage.open(redis.url, { prefix: randomUUID() }),
  short: !everything,
});

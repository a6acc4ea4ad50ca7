import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import { FileStorage, RedisStorage } from '../../../src/index.ts';
import { openSession, scratchFolder } from '../../support/kernels/session.ts';
import { everything } from '../../support/run/depth.ts';
import { RedisServer } from '../../support/servers/redis.ts';
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

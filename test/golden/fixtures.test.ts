/** What was written before the redesign opens after it: a data folder, a Redis, and the checkpoints in them. */

import { join } from 'node:path';
import { beforeAll, describe, test } from 'vitest';
import { RedisStorage } from '../../src/index.ts';
import { openSession, scratchFolder } from '../support/kernels/session.ts';
import { makeWheel } from '../support/packages/wheels.ts';
import { hostileRunner, namedPrograms } from '../support/servers/agent-server.ts';
import { RedisServer } from '../support/servers/redis.ts';
import { makeFileFixture, makeRedisFixture, PREFIX, restoreRedis, unpackWorld } from './make-fixtures.ts';
import { checkCheckpoint, checkWorld, startWorld, type WorldOptions } from './world.ts';

let parts: Pick<WorldOptions, 'runner' | 'programs' | 'wheels'>;

beforeAll(async () => {
  const [runner, programs, folder] = await Promise.all([hostileRunner(), namedPrograms(), scratchFolder()]);
  parts = { runner, programs, wheels: join(folder, 'wheels') };
  await makeWheel(parts.wheels, 'tiny-thing');
  if (process.env.CELLA_MAKE_FIXTURES !== '1') return;
  await makeFileFixture(parts);
  await using redis = await RedisServer.start();
  await makeRedisFixture(parts, redis);
});

describe('data of an earlier version', () => {
  test('a data folder opens: sessions, events, variables, checkpoints, keys, users and tokens', async () => {
    const { dataDir, facts } = await unpackWorld('files.tar.gz');
    await using server = await startWorld({ ...parts, dataDir });
    await checkWorld(server, facts);
  });

  test('the same folder opens in the library, without a server', async () => {
    const { dataDir } = await unpackWorld('files.tar.gz');
    await checkCheckpoint(await openSession({ dataDir, agentKey: 'everything' }));
  });

  test('a Redis opens, with the data folder beside it', async () => {
    const { dataDir, facts } = await unpackWorld('redis.tar.gz');
    await using redis = await RedisServer.start();
    await restoreRedis(redis);
    await using storage = await RedisStorage.open(redis.url, { prefix: PREFIX });
    await using server = await startWorld({ ...parts, dataDir, storage });
    await checkWorld(server, facts);
  });
});

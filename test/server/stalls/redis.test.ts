/** What a server keeps in Redis does not stop its event loop either. */

import { setTimeout as delay } from 'node:timers/promises';
import { it } from 'vitest';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { RedisServer } from '../../support/servers/redis.ts';
import { expectNoStall } from '../../support/servers/stalls.ts';
import { stallSuite } from './rows.ts';

stallSuite(
  {
    events: 60_000,
    audit: 60_000,
    sessions: 4_000,
    openSessions: 500,
    tokens: 500,
    kernels: 12,
    skills: 1,
    artifacts: 0,
    files: 0,
    outputs: 0,
  },
  'redis',
);

it('holding 20,000 locks', { timeout: 120_000 }, async () => {
  await using redis = await RedisServer.start();
  await using storage = await RedisStorage.open(redis.url, { prefix: 'locks', leaseMs: 24_000 });
  let rounds = 0;
  const stall = await expectNoStall(async () => {
    rounds += 1;
    for (let at = 0; at < 20_000; at += 100) {
      const hundred = Array.from({ length: 100 }, (_, more) => `agent ${rounds}-${at + more}`);
      await Promise.all(hundred.map((key) => storage.locks.acquire(key)));
    }
    // Each is renewed every four seconds.
    await delay(4500);
  });
  console.log(`longest stall ${stall.toFixed(1)} ms`);
});

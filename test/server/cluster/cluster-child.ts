/** A server in a process of its own, on a Redis that others share: it tells where it is, and ends in good order by SIGTERM. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { shutdown } from '../../../src/session/shared-resources.ts';
import { RedisStorage } from '../../../src/storage/redis/redis-storage.ts';
import { serveHere } from '../../support/servers/serve-here.ts';

const { dataDir, url, prefix, leaseMs, quotas } = JSON.parse(process.argv[3] ?? '');
const storage = await RedisStorage.open(url, { prefix, leaseMs });
await serveHere(
  {
    dataDir,
    storage,
    quotas,
    rates: { perSecond: 100_000, burst: 100_000 },
    session: { saveAfterMs: 20 },
  },
  once(process, 'SIGTERM'),
  ({ url: address, adminTokenPath, socketPath }) => {
    const token = readFileSync(adminTokenPath, 'utf8').trim();
    writeFileSync(1, `${JSON.stringify({ url: address, token, socketPath, id: storage.locks.id })}\n`);
  },
);
await shutdown();
await storage.close();

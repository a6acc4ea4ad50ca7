/** A server in a process of its own, whose event loop is measured from outside. It ends in good order by SIGTERM. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { shutdown } from '../../../src/session/shared-resources.ts';
import { serveHere } from '../../support/servers/serve-here.ts';

const { dataDir, sweepEveryMs, ...more } = JSON.parse(process.argv[2] ?? '');
await serveHere(
  {
    dataDir,
    rates: { perSecond: 100_000, burst: 100_000 },
    quotas: { liveKernels: 1000 },
    // Logs stay whole, however long they are.
    hosting: { sweepEveryMs, retention: { maxBytes: 0 }, pool: { maxKernels: 1000 } },
    graceMs: 1000,
    ...more,
  },
  once(process, 'SIGTERM'),
  ({ url, adminTokenPath }) => {
    writeFileSync(
      1,
      `${JSON.stringify({ url, token: readFileSync(adminTokenPath, 'utf8').trim(), pid: process.pid })}\n`,
    );
  },
);
await shutdown();

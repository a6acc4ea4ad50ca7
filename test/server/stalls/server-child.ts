/** A server in a process of its own, whose event loop is measured from outside. It ends in good order by SIGTERM. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { hostMcp } from '../../../src/mcp/hosted-session.ts';
import { serve } from '../../../src/server/serve.ts';
import { shutdown } from '../../../src/session/shared-resources.ts';

const { dataDir, sweepEveryMs } = JSON.parse(process.argv[2] ?? '');
await serve(
  {
    version: '0',
    dataDir,
    address: '127.0.0.1',
    port: 0,
    rates: { perSecond: 100_000, burst: 100_000 },
    quotas: { liveKernels: 1000 },
    log: { level: 'silent' },
    mcp: async (session) => hostMcp({ ...session, version: '0' }),
    // Logs stay whole, however long they are.
    hosting: { sweepEveryMs, retention: { maxBytes: 0 }, pool: { maxKernels: 1000 } },
    graceMs: 1000,
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

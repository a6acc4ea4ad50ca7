/** The server that is attacked, in a process of its own: its memory, its stalls and its end can be seen from outside. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { hostMcp } from '../../src/mcp/hosted-session.ts';
import { serve } from '../../src/server/serve.ts';
import { shutdown } from '../../src/session/shared-resources.ts';

const { dataDir, logFile, ...options } = JSON.parse(process.argv[2] ?? '{}');
await serve(
  {
    version: '0',
    address: '127.0.0.1',
    port: 0,
    graceMs: 3000,
    mcp: async (session) => hostMcp({ ...session, version: '0' }),
    ...options,
    dataDir,
    log: { level: 'info', file: logFile },
  },
  once(process, 'SIGTERM'),
  ({ url, adminTokenPath, socketPath }) => {
    // The token goes through a pipe that only the test reads.
    const token = readFileSync(adminTokenPath, 'utf8').trim();
    writeFileSync(1, `${JSON.stringify({ url, token, socketPath })}\n`);
  },
);
await shutdown();

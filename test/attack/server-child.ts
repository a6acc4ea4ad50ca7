/** The server that is attacked, in a process of its own: its memory, its stalls and its end can be seen from outside. */

import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { shutdown } from '../../src/session/shared-resources.ts';
import { serveHere } from '../support/servers/serve-here.ts';

const { dataDir, logFile, ...options } = JSON.parse(process.argv[2] ?? '{}');
await serveHere(
  { graceMs: 3000, ...options, dataDir, logLevel: 'info', logFile },
  once(process, 'SIGTERM'),
  ({ url, adminTokenPath, socketPath }) => {
    // The token goes through a pipe that only the test reads.
    const token = readFileSync(adminTokenPath, 'utf8').trim();
    writeFileSync(1, `${JSON.stringify({ url, token, socketPath })}\n`);
  },
);
await shutdown();

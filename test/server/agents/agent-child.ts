/** A process that is a server with agents, and is killed in the middle of a turn. Tells its address and token. */

import { readFile } from 'node:fs/promises';
import { serveHere } from '../../support/servers/serve-here.ts';

const [dataDir = '', runner = '', agents = ''] = process.argv.slice(2);
await serveHere(
  { dataDir, graceMs: 0, agents: { programs: { runner, agents } } },
  new Promise(() => {}),
  async ({ url, adminTokenPath }) => {
    const token = (await readFile(adminTokenPath, 'utf8')).trim();
    // No turn begins without one.
    await fetch(new URL('/v1/credentials/anthropic', url), {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ value: 'sk-ant-of-the-child-0123456789' }),
    });
    process.stdout.write(`${JSON.stringify({ url, token })}\n`);
  },
);

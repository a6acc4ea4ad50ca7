/** Inside a sandbox: a loopback port that leads to the socket of the gateway folder. */

import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { pipeline } from 'node:stream';

export async function forward(socketPath) {
  const server = createServer((client) => {
    const host = connect(socketPath);
    // Either side may hang up at any time; the other is told by that.
    pipeline(client, host, () => {});
    pipeline(host, client, () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: server.address().port, close: () => server.close() };
}

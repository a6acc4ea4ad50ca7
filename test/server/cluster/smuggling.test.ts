/** What a client sends through one server to another stays its own request, however it is framed. */

import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, expect, test } from 'vitest';
import { Cluster, type Server } from '../../support/servers/cluster.ts';

let [owner, other] = [] as unknown as [Server, Server];
let id = '';
beforeAll(async () => {
  const cluster = await Cluster.start();
  [owner, other] = await Promise.all([cluster.server(), cluster.server()]);
  id = await owner.session();
  await owner.run(id, '1');
});

/** Sends it as it is, and gives the beginning of the answer. */
async function raw(server: Server, text: string): Promise<string> {
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  socket.write(text);
  const [answer] = await once(socket, 'data');
  socket.destroy();
  return String(answer);
}

test.each(['DELETE', 'GET'])('the body of a %s is never taken for another request', async (method) => {
  const authorization = `Authorization: Bearer ${owner.facts.token}`;
  const inner = [
    `PUT /v1/sessions/${id}/files/content?path=stolen-${method} HTTP/1.1`,
    'Host: 127.0.0.1',
    authorization,
    'Content-Length: 100',
    '',
    '',
  ].join('\r\n');
  const outer = [
    `${method} /v1/sessions/${id}/files?path=nothing HTTP/1.1`,
    'Host: 127.0.0.1',
    authorization,
    // Says that the length of the body is for one connection alone.
    'Connection: content-length',
    `Content-Length: ${inner.length}`,
    '',
    inner,
  ].join('\r\n');
  expect(await raw(other, outer)).toMatch(/^HTTP\/1.1 4/);
  // Somebody else, whose request must not become the body of what was hidden in the first.
  const { status } = await other.call(`GET /v1/sessions/${id}/variables`);
  expect(status).toBe(200);
  expect((await owner.fetch(`GET /v1/sessions/${id}/files/content?path=stolen-${method}`)).status).toBe(404);
});

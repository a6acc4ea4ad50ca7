import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it } from 'vitest';
import { WebTransport } from './transport.ts';

it.each([
  ['', '/v1/sessions?limit=2'],
  ['/', '/v1/sessions?limit=2'],
  ['/cella', '/cella/v1/sessions?limit=2'],
  ['/of/ours/', '/of/ours/v1/sessions?limit=2'],
])('requests paths below that of the address: %j', async (path, expected) => {
  const asked: (string | undefined)[] = [];
  await using server = await listen(({ url }) => asked.push(url));
  const transport = new WebTransport(`${server.url}${path}`, 'secret');
  const response = await transport.request({ method: 'GET', path: '/v1/sessions?limit=2', headers: {} });
  expect([response.status, asked]).toEqual([204, [expected]]);
  expect(transport.address).toBe(`${server.url}${path.replace(/\/$/, '')}`);
});

it('opens WebSockets below the path of the address', async () => {
  await using server = await listen(() => {});
  const upgraded = once(server.server, 'upgrade');
  const socket = new WebTransport(`${server.url}/cella`, 'secret').socket('/v1/sessions/x/ws?after=3');
  const [request, connection] = await upgraded;
  expect(request.url).toBe('/cella/v1/sessions/x/ws?after=3');
  connection.destroy();
  socket?.close();
});

async function listen(told: (request: IncomingMessage) => void) {
  const server: Server = createServer((request, response) => {
    told(request);
    response.writeHead(204).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    server.closeAllConnections();
    server.close();
  };
  return { server, url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: close };
}

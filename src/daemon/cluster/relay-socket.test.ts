import { getEventListeners, once } from 'node:events';
import { createServer } from 'node:http';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openSocket } from './relay-socket.ts';

const server = createServer();
let url = '';
beforeAll(async () => {
  server.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
});
afterAll(() => server.close());

const target = (protocols: string[], gone = new AbortController().signal) => {
  return { url, path: '/', headers: {}, protocols, gone };
};

it('gives the refusal of the other server, and then waits for nothing of it', async () => {
  const { signal } = new AbortController();
  const refusal = await openSocket(target([], signal));
  expect(refusal).toBeInstanceOf(Response);
  expect(refusal).toMatchObject({ status: 404 });
  await expect.poll(() => getEventListeners(signal, 'abort').length).toBe(0);
});

it('refuses protocols that no WebSocket can ask for', async () => {
  await expect(openSocket(target(['a', 'a']))).rejects.toMatchObject({ code: 'INVALID_REQUEST' });
});

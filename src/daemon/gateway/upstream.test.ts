import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { Upstream } from './upstream.ts';

test('an answer that begins before the request has ended may take its time', async () => {
  const patience = { connectMs: 5000, answerMs: 50, idleMs: 5000 };
  const server = createServer(async (request, response) => {
    response.write('begun, ');
    request.resume();
    await once(request, 'end');
    // Longer than it may take until there is any answer.
    await delay(patience.answerMs * 4);
    response.end('done');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  using upstream = new Upstream(patience);
  const { port } = server.address() as AddressInfo;
  const body = Buffer.alloc(32 * 1024 * 1024);
  const answer = await upstream.send({
    url: new URL(`http://127.0.0.1:${port}/`),
    method: 'POST',
    headers: { 'content-length': body.length },
    body,
    signal: new AbortController().signal,
  });
  expect(await text(answer)).toBe('begun, done');
});

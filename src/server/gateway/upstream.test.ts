import { EventEmitter, once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { EventReader } from './response-filter.ts';
import { defaultUpstreamTimeouts, relayResponse, Upstream } from './upstream.ts';
import { ResponseUsageReader } from './usage-reader.ts';

test('an answer that begins before the request has ended has no time limit', async () => {
  const timeouts = { ...defaultUpstreamTimeouts, answerMs: 50 };
  const server = createServer(async (request, response) => {
    response.write('begun, ');
    request.resume();
    await once(request, 'end');
    // Longer than it may take until there is any answer.
    await delay(timeouts.answerMs * 4);
    response.end('done');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  using upstream = new Upstream(timeouts);
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

test('an unreachable provider is tried again after each pause, and is then reported as unreachable', async () => {
  const server = createServer((_request, response) => void response.end('back')).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const outgoing = {
    url: new URL(`http://127.0.0.1:${port}/`),
    method: 'GET',
    headers: {},
    body: undefined,
    signal: new AbortController().signal,
  } as const;
  server.close();
  await once(server, 'close');
  using hasty = new Upstream({ ...defaultUpstreamTimeouts, pausesMs: [1, 1] });
  await expect(hasty.send(outgoing)).rejects.toMatchObject({
    code: 'PROVIDER_FAILED',
    message: expect.stringContaining('it cannot be reached (ECONNREFUSED), after 3 attempts'),
    details: { permanent: true },
  });
  using patient = new Upstream({ ...defaultUpstreamTimeouts, pausesMs: Array(200).fill(20) });
  const answered = patient.send(outgoing);
  server.listen(port, '127.0.0.1');
  expect(await text(await answered)).toBe('back');
});

test('no retry waits for a caller who has disconnected', async () => {
  using upstream = new Upstream({ ...defaultUpstreamTimeouts, pausesMs: [1_000_000] });
  const gone = new AbortController();
  const url = new URL('http://127.0.0.1:1/');
  const sent = upstream.send({ url, method: 'GET', headers: {}, body: undefined, signal: gone.signal });
  setImmediate(() => gone.abort());
  await expect(sent).rejects.toMatchObject({ code: 'ABORTED' });
});

test.each([
  ['at once is sent again on another', 60_000, 3],
  ['later was heard, and is not sent again: it would be paid for twice', 0, 2],
])('a reset on a kept connection %s', async (_name, staleMs, asked) => {
  let requests = 0;
  const server = createServer((request, response) => {
    if (++requests === 2) request.socket.resetAndDestroy();
    else response.end('answered');
  }).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close().closeAllConnections());
  await once(server, 'listening');
  using upstream = new Upstream({ ...defaultUpstreamTimeouts, staleMs });
  const { port } = server.address() as AddressInfo;
  let heard = 0;
  const ask = async () => {
    const url = new URL(`http://127.0.0.1:${port}/`);
    const { signal } = new AbortController();
    const onHeard = () => void heard++;
    return await text(
      await upstream.send({ url, method: 'POST', headers: {}, body: undefined, signal, onSent: onHeard }),
    );
  };
  expect(await ask()).toBe('answered');
  // The connection is free again once its end was seen.
  await new Promise(setImmediate);
  if (asked === 3) expect(await ask()).toBe('answered');
  else await expect(ask()).rejects.toMatchObject({ code: 'PROVIDER_FAILED' });
  expect([requests, heard]).toEqual([asked, asked]);
});

const PIECES = 60;

/** A stream of the provider's that is there at once. */
function answer(): IncomingMessage {
  const pieces = Array.from({ length: PIECES }, () => Buffer.from(': piece\n\n'));
  const headers = { 'content-type': 'text/event-stream' };
  return Object.assign(Readable.from(pieces), { headers, statusCode: 500 }) as unknown as IncomingMessage;
}

/** An agent that takes each piece so long after it came. */
function reader(restMs: number): { response: ServerResponse; taken: () => number } {
  const events = new EventEmitter();
  let taken = 0;
  const write = () => {
    setTimeout(() => {
      taken++;
      events.emit('drain');
    }, restMs);
    return false;
  };
  const told = { setHeader: () => {}, writeHead: () => {}, flushHeaders: () => {}, write };
  return { response: Object.assign(events, told) as unknown as ServerResponse, taken: () => taken };
}

const options = (idleMs: number) => ({
  ...{ key: 'sk-none', streamed: true, idleMs, mostBytes: 1e6 },
  reader: new EventReader({ rules: { shape: 'free' }, key: 'sk-none', usage: new ResponseUsageReader('messages') }),
  signal: new AbortController().signal,
});

test('an agent that reads slowly has no more time in total than for one piece', async () => {
  const { response, taken } = reader(20);
  await expect(relayResponse(answer(), response, options(200))).rejects.toMatchObject({
    code: 'ABORTED',
    message: expect.stringContaining('too slowly'),
  });
  expect(taken()).toBeLessThan(PIECES);
});

test('an agent that reads gets all of it', async () => {
  const { response, taken } = reader(0);
  await relayResponse(answer(), response, options(60_000));
  expect(taken()).toBe(PIECES);
});

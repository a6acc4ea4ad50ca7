import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { EventReader } from './response-reader.ts';
import { relayResponse } from './response-relay.ts';
import { ResponseUsageReader } from './usage-reader.ts';

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

test('an agent that takes a little now and then has no more time in all than for one piece', async () => {
  const { response, taken } = reader(20);
  await expect(relayResponse(answer(), response, options(200))).rejects.toMatchObject({
    code: 'ABORTED',
    message: expect.stringContaining('too slowly'),
  });
  expect(taken()).toBeLessThan(PIECES);
});

test('an agent that takes what it is given gets all of it', async () => {
  const { response, taken } = reader(0);
  await relayResponse(answer(), response, options(60_000));
  expect(taken()).toBe(PIECES);
});

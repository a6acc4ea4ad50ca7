/** A client that reads slowly is waited for; one that does not read is let go. */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { UnreadLimit } from '../unread-limit.ts';
import { closeSocket, Heartbeat, SendQueue } from './socket-connection.ts';

const limits = { slowClientTimeoutMs: 50, bufferBytes: 10 };

/** A connection in which so much waits; what is sent is taken when the test says so. */
function slowClient(mostUnread = 1_000_000) {
  const state = { bufferedAmount: 100, taken: () => {} };
  const socket = {
    get bufferedAmount() {
      return state.bufferedAmount;
    },
    send: (_data: unknown, _options: unknown, done: () => void) => {
      state.taken = done;
    },
  };
  const onSlow = vi.fn<() => void>();
  // Nothing else of it is used.
  const memory = new UnreadLimit(mostUnread).open('ada');
  const over = new AbortController().signal;
  const sendQueue = new SendQueue(socket as unknown as WebSocket, { ...limits, memory, over, onSlow });
  return { state, sendQueue, onSlow };
}

test('one that reads nothing is disconnected', async () => {
  const { sendQueue, onSlow } = slowClient();
  await sendQueue.sendBytes(Buffer.from('x'));
  expect(onSlow).toHaveBeenCalledOnce();
});

test('one that reads slowly stays connected, however long it takes', async () => {
  const { state, sendQueue, onSlow } = slowClient();
  const sent = sendQueue.sendBytes(Buffer.from('x'));
  const reading = setInterval(() => {
    state.bufferedAmount -= 10;
    if (state.bufferedAmount === 0) state.taken();
  }, limits.slowClientTimeoutMs / 2);
  await sent.finally(() => clearInterval(reading));
  expect(onSlow).not.toHaveBeenCalled();
  expect(state.bufferedAmount).toBe(0);
});

test('senders to one that reads nothing wait: only its buffer and one frame are kept', async () => {
  const [stuck, over] = [{ bufferedAmount: 0 }, new AbortController()];
  const socket = Object.assign(stuck, {
    send: (data: Buffer) => {
      stuck.bufferedAmount += data.length;
    },
  });
  const some = { ...limits, bufferBytes: 1000 };
  const memory = new UnreadLimit(1_000_000).open('ada');
  const options = { ...some, memory, over: over.signal, onSlow: () => over.abort() };
  const sendQueue = new SendQueue(socket as unknown as WebSocket, options);
  for (let n = 0; n < 100; n++) await sendQueue.send({ type: 'reply', id: n, result: 'x'.repeat(400) });
  expect(over.signal.aborted).toBe(true);
  expect(stuck.bufferedAmount).toBeGreaterThan(some.bufferBytes);
  expect(stuck.bufferedAmount).toBeLessThan(some.bufferBytes + 600);
});

test.each([
  [1_000_000, 'sent'],
  [1000, 'waits'],
])('one that has a little to read gets more, unless its user leaves %i bytes unread', async (mostUnread, becomes) => {
  const { state, sendQueue } = slowClient(mostUnread);
  state.bufferedAmount = 1;
  const sent = sendQueue.sendBytes(Buffer.alloc(1000)).then(() => 'sent');
  expect(await Promise.race([sent, delay(10).then(() => 'waits')])).toBe(becomes);
  state.bufferedAmount = 0;
  state.taken();
  expect(await sent).toBe('sent');
});

test.each([
  ['短い', '短い'],
  ['x'.repeat(200), 'x'.repeat(123)],
  ['数'.repeat(100), '数'.repeat(41)],
  [`x${'😀'.repeat(50)}`, `x${'😀'.repeat(30)}`],
])('the reason %s is sent up to its last whole character that fits into a close frame', async (reason, sent) => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  server.on('connection', (socket) => closeSocket(socket, CloseCode.failed, reason));
  await once(server, 'listening');
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [code, received] = await once(client, 'close');
  expect([code, String(received)]).toEqual([CloseCode.failed, sent]);
  server.close();
});

const quiet = { room: true, listening: true };

test('one that answers is pinged again and again', () => {
  const pulse = new Heartbeat();
  for (let beat = 0; beat < 5; beat++) {
    expect(pulse.beat(quiet)).toBe('ping');
    pulse.alive();
  }
});

test('one that was pinged and does not answer is disconnected', () => {
  const pulse = new Heartbeat();
  expect(pulse.beat(quiet)).toBe('ping');
  expect(pulse.beat(quiet)).toBe('close');
});

test('one that could not be pinged, because much data was on its way, is not disconnected', () => {
  const pulse = new Heartbeat();
  expect(pulse.beat({ ...quiet, room: false })).toBe('wait');
  expect(pulse.beat({ ...quiet, room: false })).toBe('wait');
  expect(pulse.beat(quiet)).toBe('ping');
  expect(pulse.beat(quiet)).toBe('close');
});

test('one that is paused cannot answer, and is not disconnected', () => {
  const pulse = new Heartbeat();
  expect(pulse.beat({ ...quiet, listening: false })).toBe('ping');
  expect(pulse.beat(quiet)).toBe('ping');
});

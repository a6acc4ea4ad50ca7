import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { ExecutionDeadline } from '../kernel/kernel-execution.ts';
import { IdleTimeout, timeoutAfterIo } from './deadline.ts';

/** A connection in which something has come that nobody has read yet. */
async function unread(): Promise<Socket> {
  const said = Promise.withResolvers<void>();
  const server = createServer((socket) => void socket.write('said in time', () => said.resolve()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const socket = connect(typeof address === 'object' && address ? address.port : 0, '127.0.0.1').pause();
  onTestFinished(() => {
    socket.destroy();
    server.close();
  });
  await said.promise;
  return socket;
}

/** As on a machine that gives this process no processor for a while. */
const stall = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

test('an answer in time counts, however late this process reads it', async () => {
  const socket = await unread();
  const late = vi.fn<() => void>();
  const cancel = timeoutAfterIo(20, late);
  const heard = once(socket, 'data').then(cancel);
  socket.resume();
  stall(100);
  await heard;
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(late).not.toHaveBeenCalled();
});

test('code that stopped within the grace period is not killed, however late its result is read', async () => {
  const socket = await unread();
  const on = { timeout: vi.fn<() => void>(), kill: vi.fn<() => void>() };
  const clock = new ExecutionDeadline({ timeoutMs: 60_000, graceMs: 20 }, on);
  clock.startGrace();
  const heard = once(socket, 'data').then(() => clock.stop());
  socket.resume();
  stall(100);
  await heard;
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(on.kill).not.toHaveBeenCalled();
});

test('reports silence', async () => {
  await new Promise<void>((resolve) => void timeoutAfterIo(5, resolve));
});

describe('an idle timeout', () => {
  beforeEach(() => vi.useFakeTimers());
  afterEach(() => vi.useRealTimers());

  test('calls back once, after the time since the last use', () => {
    const onIdle = vi.fn();
    const idle = new IdleTimeout(100, onIdle);
    idle.restart();
    vi.advanceTimersByTime(60);
    idle.restart();
    vi.advanceTimersByTime(60);
    expect(onIdle).not.toHaveBeenCalled();
    vi.advanceTimersByTime(40);
    vi.advanceTimersByTime(1000);
    expect(onIdle).toHaveBeenCalledTimes(1);
  });

  test('does not call back while it is in use, nor if the time is 0', () => {
    const onIdle = vi.fn();
    const idle = new IdleTimeout(100, onIdle);
    idle.restart();
    idle.stop();
    const never = new IdleTimeout(0, onIdle);
    never.restart();
    vi.advanceTimersByTime(1000);
    expect(onIdle).not.toHaveBeenCalled();
  });
});

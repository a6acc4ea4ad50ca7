import { expect, test, vi } from 'vitest';
import type { WebSocket } from 'ws';
import { Outbox } from './outbox.ts';

const limits = { bufferBytes: 1000, patienceMs: 20, heartbeatMs: 1000 };

/** A connection whose other side never reads. */
class Stuck {
  bufferedAmount = 0;
  readonly send = vi.fn((data: string) => {
    this.bufferedAmount += data.length;
  });
}

test('whoever sends to a client that does not read waits, so that no more is kept for it than its buffer and one frame', async () => {
  const [stuck, over, slow] = [new Stuck(), new AbortController(), vi.fn(() => over.abort())];
  const outbox = new Outbox(stuck as unknown as WebSocket, limits, over.signal, slow);
  for (let n = 0; n < 100; n++) await outbox.put({ type: 'reply', id: n, result: 'x'.repeat(400) });
  expect(slow).toHaveBeenCalledOnce();
  expect(stuck.bufferedAmount).toBeGreaterThan(limits.bufferBytes);
  expect(stuck.bufferedAmount).toBeLessThan(limits.bufferBytes + 600);
});

test('whoever sends to a client that reads goes on, and is told of nothing', async () => {
  const taken: string[] = [];
  const send = (data: string, done: () => void) => {
    taken.push(data);
    done();
  };
  const quick = { bufferedAmount: 5000, send };
  const slow = vi.fn();
  const outbox = new Outbox(quick as unknown as WebSocket, limits, new AbortController().signal, slow);
  for (let n = 0; n < 100; n++) await outbox.put({ type: 'reply', id: n, result: 'x' });
  expect(taken).toHaveLength(100);
  expect(slow).not.toHaveBeenCalled();
});

/** What was passed on to another server ends when that server has gone, and when it is silent for long. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ClusterPeerMonitor } from './peer-monitor.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const peer = { id: 'a', url: 'http://127.0.0.1:1' };
const here = async () => true;

test('a server that keeps its lock and never answers is given up', async () => {
  using monitor = new ClusterPeerMonitor({ isAlive: here, answers: () => new Promise(() => {}) });
  const { gone } = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(gone.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(gone.aborted).toBe(true);
  expect(gone.reason).toMatchObject({ message: expect.stringContaining('has not answered for') });
});

test('a server that answers is waited for, however long it takes, and is not polled all the time', async () => {
  const answers = vi.fn<() => Promise<boolean>>(here);
  using monitor = new ClusterPeerMonitor({ isAlive: here, answers });
  using watched = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(600_000);
  expect(watched.gone.aborted).toBe(false);
  expect(answers.mock.calls.length).toBeLessThan(65);
});

test('a server whose lock is gone is given up at once', async () => {
  using monitor = new ClusterPeerMonitor({ isAlive: async () => false, answers: here });
  const { gone } = monitor.watch(peer);
  await vi.advanceTimersByTimeAsync(1500);
  expect(gone.aborted).toBe(true);
});

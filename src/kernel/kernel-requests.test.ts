import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { KernelConnection } from './kernel-connection.ts';
import { KernelRequests, type PendingKernelRequest } from './kernel-requests.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** A save that may take 60 s. `isPaused`: whether the kernel is stopped. */
function saving(isPaused: () => Promise<boolean>) {
  const unanswered = vi.fn();
  let asked: PendingKernelRequest | undefined;
  const link = { control: { send: () => {} }, isPaused } as unknown as KernelConnection;
  const questions = new KernelRequests(link, {
    checkIdle: () => {},
    unanswered,
    started: (request) => {
      asked = request;
    },
  });
  const result = questions.save({ limitBytes: 1000, seconds: 60 }, () => {});
  result.catch(() => {});
  return { unanswered, request: asked as unknown as PendingKernelRequest };
}

test('a save has its full time if the kernel is not stopped', async () => {
  const { unanswered } = saving(async () => false);
  await vi.advanceTimersByTimeAsync(64_000);
  expect(unanswered).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1000);
  expect(unanswered).toHaveBeenCalledOnce();
});

test('a save is given up after a while if the kernel is stopped', async () => {
  let held = false;
  const { unanswered } = saving(async () => held);
  await vi.advanceTimersByTimeAsync(15_000);
  held = true;
  await vi.advanceTimersByTimeAsync(5000);
  expect(unanswered).toHaveBeenCalledOnce();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(unanswered).toHaveBeenCalledOnce();
});

test('a save that ends during a check of the kernel is over', async () => {
  const look = Promise.withResolvers<boolean>();
  const { unanswered, request } = saving(() => look.promise);
  await vi.advanceTimersByTimeAsync(10_000);
  request.reject(new Error('it has ended'));
  look.resolve(true);
  await vi.advanceTimersByTimeAsync(100_000);
  expect(unanswered).not.toHaveBeenCalled();
  expect(vi.getTimerCount()).toBe(0);
});

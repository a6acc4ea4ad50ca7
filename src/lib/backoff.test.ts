import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Backoff } from './backoff.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const lost = new Error('lost');

/** More than any of these waits. */
const LONG_MS = 20_000;

/** How long it waits until it gives up. */
async function attempts(backoff: Backoff): Promise<number> {
  const from = performance.now();
  const all = (async () => {
    while (true) await backoff.wait(lost);
  })();
  const given = all.catch((error: unknown) => {
    expect(error).toBe(lost);
    return performance.now() - from;
  });
  // Not until no timer is left: what another file has left in this process may begin one again and again.
  await vi.advanceTimersByTimeAsync(LONG_MS);
  return await given;
}

test('tries until the deadline, and gives up with the error', async () => {
  const waited = await attempts(new Backoff(10_000));
  expect(waited).toBeGreaterThan(8000);
  expect(waited).toBeLessThanOrEqual(10_000);
});

test('starts again after an answer, however long ago the first failure was', async () => {
  const backoff = new Backoff(1000);
  await attempts(backoff);
  await expect(backoff.wait(lost)).rejects.toBe(lost);
  backoff.restartDeadline();
  expect(await attempts(backoff)).toBeGreaterThan(500);
  backoff.reset();
  expect(await attempts(backoff)).toBeGreaterThan(500);
});

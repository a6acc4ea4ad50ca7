/** A kill that takes its time does not cost the whole enclosure, and one that cannot be carried out does. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { endWhereHeld } from './held-still.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function killed({ held }: { held: boolean }) {
  const exit = Promise.withResolvers<void>();
  const end = vi.fn<() => void>();
  const heldStill = vi.fn<() => Promise<boolean>>(async () => held);
  endWhereHeld(exit.promise, 1, { lookMs: 1500, heldStill }, end);
  return { exit, end, heldStill };
}

test('nothing is looked at where it ends at once', async () => {
  const { exit, end, heldStill } = killed({ held: true });
  exit.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(heldStill).not.toHaveBeenCalled();
  expect(end).not.toHaveBeenCalled();
});

test('one that is slow on a busy machine is waited for', async () => {
  const { exit, end, heldStill } = killed({ held: false });
  await vi.advanceTimersByTimeAsync(12_000);
  expect(heldStill).toHaveBeenCalled();
  exit.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(end).not.toHaveBeenCalled();
});

test('all is ended at the first look where it is held still', async () => {
  const { end } = killed({ held: true });
  await vi.advanceTimersByTimeAsync(1500);
  expect(end).toHaveBeenCalledOnce();
});

test('all is ended, once, where the kill is never carried out', async () => {
  const { end } = killed({ held: false });
  await vi.advanceTimersByTimeAsync(120_000);
  expect(end).toHaveBeenCalledOnce();
});

test('a look that takes long is part of the time', async () => {
  const { end, heldStill } = killed({ held: false });
  heldStill.mockImplementation(() => new Promise((resolve) => setTimeout(resolve, 10_000, false)));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(end).toHaveBeenCalledOnce();
});

test('one that ends while it is looked at costs nothing more', async () => {
  const { exit, end, heldStill } = killed({ held: true });
  heldStill.mockImplementation(async () => {
    exit.resolve();
    await exit.promise;
    return true;
  });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(end).not.toHaveBeenCalled();
});

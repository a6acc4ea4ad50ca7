import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { beginWriting, takeTurn } from './file-limits.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('a user has 4 works under way and 64 that wait; others do not notice', async () => {
  const taken = await Promise.all([1, 2, 3, 4].map(() => takeTurn('mallory')));
  let begun = 0;
  const waiting = Array.from({ length: 64 }, async () => {
    const left = await takeTurn('mallory');
    begun++;
    left();
  });
  await expect(takeTurn('mallory')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  (await takeTurn('victoria'))();
  expect(begun).toBe(0);
  for (const left of taken) left();
  await Promise.all(waiting);
  expect(begun).toBe(64);
});

it('nobody waits for ever where all works of a user hang', async () => {
  const taken = await Promise.all([1, 2, 3, 4].map(() => takeTurn('mallory')));
  const waiting = expect(takeTurn('mallory')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await vi.advanceTimersByTimeAsync(30_000);
  await waiting;
  for (const left of taken) left();
  (await takeTurn('mallory'))();
});

it('a user writes 128 files at a time', () => {
  const begun = Array.from({ length: 128 }, () => beginWriting('mallory'));
  expect(() => beginWriting('mallory')).toThrow('128 files are being written');
  beginWriting('victoria')();
  for (const end of begun) end();
  beginWriting('mallory')();
});

/** Turns: in order, one at a time, and without those who give up. */

import { expect, it } from 'vitest';
import { ChangeQueue } from './deps.ts';

const never = new AbortController().signal;

it('one begins when the one before has ended, also where that failed', async () => {
  const turns = new ChangeQueue();
  const told: string[] = [];
  const first = turns.take(never, async () => {
    told.push('first');
    await Promise.resolve();
    told.push('first ends');
    throw new Error('no');
  });
  const second = turns.take(never, async () => told.push('second'));
  await expect(first).rejects.toThrow('no');
  await second;
  expect(told).toEqual(['first', 'first ends', 'second']);
});

it('who gives up does not wait, and lets nobody through before their turn', async () => {
  const turns = new ChangeQueue();
  const told: string[] = [];
  const ending = Promise.withResolvers<void>();
  const stop = new AbortController();
  const first = turns.take(never, () => ending.promise);
  const second = turns.take(stop.signal, async () => told.push('second'));
  const third = turns.take(never, async () => told.push('third'));
  stop.abort();
  await expect(second).rejects.toMatchObject({ code: 'ABORTED' });
  expect(told).toEqual([]);
  ending.resolve();
  await Promise.all([first, third]);
  expect(told).toEqual(['third']);
});

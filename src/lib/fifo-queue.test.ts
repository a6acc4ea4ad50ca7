import { expect, it } from 'vitest';
import { FifoQueue } from './fifo-queue.ts';

it('gives what was put into it in order, also where others come meanwhile', () => {
  const queue = new FifoQueue<number>();
  const seen: number[] = [];
  let next = 0;
  for (let round = 0; round < 200; round++) {
    for (let i = 0; i < 100; i++) queue.push(next++);
    for (let i = 0; i < 60; i++) {
      seen.push(queue.first ?? -1);
      queue.shift();
    }
  }
  while (queue.first !== undefined) {
    seen.push(queue.first);
    queue.shift();
  }
  expect(seen).toEqual(Array.from({ length: next }, (_, index) => index));
  queue.push(7);
  queue.clear();
  expect(queue.first).toBeUndefined();
});

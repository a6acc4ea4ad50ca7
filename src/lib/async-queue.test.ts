import { expect, test } from 'vitest';
import { AsyncQueue } from './async-queue.ts';

async function readAll<T>(queue: AsyncQueue<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

test('a reader gets what waits and what comes, in order, until the end', async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  const reading = readAll(queue);
  await new Promise(setImmediate);
  queue.push(2);
  queue.push(3);
  queue.end();
  queue.push(4);
  expect(await reading).toEqual([1, 2, 3]);
});

test('an error comes after what was pushed before it, and the first one counts', async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  queue.end(new Error('broken'));
  queue.end(new Error('later'));
  const reader = queue[Symbol.asyncIterator]();
  expect(await reader.next()).toEqual({ done: false, value: 1 });
  await expect(reader.next()).rejects.toThrow('broken');
});

test('above its limit the oldest items go, and the newest stays', async () => {
  const queue = new AsyncQueue<string>({ dropAbove: 10 });
  for (const item of ['a', 'b', 'c']) queue.push(item, 4);
  expect(queue.size).toBe(8);
  queue.push('large', 100);
  expect(queue.size).toBe(100);
  queue.end();
  expect(await readAll(queue)).toEqual(['large']);
});

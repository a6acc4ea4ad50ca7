import { describe, expect, it } from 'vitest';
import { EventQueue } from './event-queue.ts';

const MB = 1024 * 1024;

async function all<T>(queue: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe('an event queue', () => {
  it('returns events in order and the last one at the end', async () => {
    const queue = new EventQueue<number>();
    queue.push(1, 1);
    queue.push(2, 1);
    queue.end(3);
    expect(await all(queue)).toEqual([1, 2, 3]);
  });

  it('wakes a reader that waits', async () => {
    const queue = new EventQueue<number>();
    const reading = all(queue);
    await Promise.resolve();
    queue.push(1, 1);
    await Promise.resolve();
    queue.push(2, 1);
    queue.end();
    expect(await reading).toEqual([1, 2]);
  });

  it('is full at one megabyte, and reports once when there is room again', async () => {
    let rooms = 0;
    const queue = new EventQueue<number>();
    queue.attach({ onRoom: () => rooms++ });
    expect(queue.push(1, MB - 1)).toBe(true);
    expect(queue.push(2, 1)).toBe(false);
    expect(queue.push(3, 1)).toBe(false);
    expect(rooms).toBe(0);
    const reader = queue[Symbol.asyncIterator]();
    await reader.next();
    expect(rooms).toBe(1);
    await reader.next();
    expect(rooms).toBe(1);
    expect(queue.push(4, 1)).toBe(true);
  });

  it('loses nothing for a slow reader, however full it is', async () => {
    const queue = new EventQueue<number>();
    for (let index = 0; index < 20; index++) queue.push(index, MB);
    queue.end(20);
    expect(await all(queue)).toEqual(Array.from({ length: 21 }, (_, index) => index));
    expect(queue.lost).toBe(0);
  });

  it('never blocks a writer whose reader has stopped', async () => {
    let rooms = 0;
    const queue = new EventQueue<number>();
    queue.attach({ onRoom: () => rooms++ });
    queue.push(1, 2 * MB);
    for await (const _ of queue) break;
    expect(rooms).toBeGreaterThan(0);
    expect(queue.push(2, 100 * MB)).toBe(true);
    expect(queue.push(3, 100 * MB)).toBe(true);
  });

  it('reports the events that a reader leaves unread', async () => {
    const left: number[] = [];
    const queue = new EventQueue<number>();
    queue.attach({ onRoom: () => {}, onUnread: (items) => left.push(...items) });
    for (const item of [1, 2, 3]) queue.push(item, 1);
    for await (const _ of queue) break;
    expect(left).toEqual([2, 3]);
    expect(queue.abandoned).toBe(true);
  });

  it('that is drained makes room at once, drops events over eight megabytes, and counts them', async () => {
    let rooms = 0;
    const queue = new EventQueue<string>();
    queue.attach({ onRoom: () => rooms++ });
    expect(queue.push('kept', 2 * MB)).toBe(false);
    queue.dropWhenFull();
    expect(rooms).toBe(1);
    expect(queue.push('kept too', 5 * MB)).toBe(true);
    expect(queue.push('lost', 2 * MB)).toBe(true);
    expect(queue.lost).toBe(2 * MB);
    expect(queue.push('small', 1)).toBe(true);
    queue.end('result');
    expect(await all(queue)).toEqual(['kept', 'kept too', 'small', 'result']);
  });

  it('returns events before a failure, and then throws it', async () => {
    const queue = new EventQueue<number>();
    queue.push(1, 1);
    queue.fail(new Error('broken'));
    const seen: number[] = [];
    await expect(
      (async () => {
        for await (const item of queue) seen.push(item);
      })(),
    ).rejects.toThrow('broken');
    expect(seen).toEqual([1]);
  });

  it('accepts nothing after its end', async () => {
    const queue = new EventQueue<number>();
    queue.end(1);
    queue.push(2, 1);
    queue.end(3);
    expect(await all(queue)).toEqual([1]);
  });
});

import { describe, expect, it, test } from 'vitest';
import { AsyncQueue, FifoQueue, Semaphore } from './queues.ts';

it('returns items in order, also while others arrive', () => {
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

async function readAll<T>(queue: AsyncQueue<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

test('a reader gets waiting and new items, in order, until the end', async () => {
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

test('an error comes after earlier items, and the first one counts', async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  queue.end(new Error('broken'));
  queue.end(new Error('later'));
  const reader = queue[Symbol.asyncIterator]();
  expect(await reader.next()).toEqual({ done: false, value: 1 });
  await expect(reader.next()).rejects.toThrow('broken');
});

test('above its limit the oldest items are dropped, and the newest stays', async () => {
  const queue = new AsyncQueue<string>({ dropAbove: 10 });
  for (const item of ['a', 'b', 'c']) queue.push(item, 4);
  expect(queue.size).toBe(8);
  queue.push('large', 100);
  expect(queue.size).toBe(100);
  queue.end();
  expect(await readAll(queue)).toEqual(['large']);
});

/** Everything that can go on has gone on. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a semaphore', () => {
  it('runs a limited number at once, and the others in order', async () => {
    const slots = new Semaphore(2);
    const begun: number[] = [];
    const ends = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
    const works = ends.map((end, index) =>
      slots.run(async () => {
        begun.push(index);
        await end.promise;
        if (index === 1) throw new Error('failed');
      }),
    );
    const settled = Promise.allSettled(works);
    await turn();
    expect(begun).toEqual([0, 1]);
    ends[1]?.resolve();
    await expect(works[1]).rejects.toThrow('failed');
    ends[2]?.resolve();
    await works[2];
    await turn();
    expect(begun).toEqual([0, 1, 2, 3]);
    for (const end of ends) end.resolve();
    await settled;
    expect(await slots.run(async () => 'free')).toBe('free');
  });

  it('removes callers who no longer wait, without a free slot in between', async () => {
    const slots = new Semaphore(1);
    const end = Promise.withResolvers<void>();
    const first = slots.run(() => end.promise);
    const stop = new AbortController();
    const stopped = slots.run(async () => stop.signal.aborted, stop.signal);
    const third = slots.run(async () => 'third');
    stop.abort();
    expect(await stopped).toBe(true);
    let thirdDone = false;
    void third.then(() => {
      thirdDone = true;
    });
    await turn();
    expect(thirdDone).toBe(false);
    end.resolve();
    await first;
    expect(await third).toBe('third');
  });

  it('runs as much work as fits by weight, in order', async () => {
    const room = new Semaphore(10);
    const begun: number[] = [];
    const take = async (weight: number) => {
      const taken = await room.take({ weight });
      begun.push(weight);
      return taken;
    };
    const first = await take(7);
    const second = take(4);
    // It would fit, but does not overtake.
    const third = take(3);
    await turn();
    expect(begun).toEqual([7]);
    expect([room.full, room.waiting]).toEqual([true, 2]);
    first[Symbol.dispose]();
    await Promise.all([second, third]);
    expect(begun).toEqual([7, 4, 3]);
    expect([room.full, room.waiting]).toEqual([false, 0]);
    await take(3);
    expect(room.full).toBe(true);
  });

  it('runs work that weighs more than fits, alone', async () => {
    const room = new Semaphore(10);
    const small = await room.take({ weight: 1 });
    const huge = room.take({ weight: 1000 });
    const after = room.take({ weight: 1 });
    let done = 0;
    for (const one of [huge, after]) void one.then(() => done++);
    await turn();
    expect(done).toBe(0);
    small[Symbol.dispose]();
    const taken = await huge;
    await turn();
    expect(done).toBe(1);
    taken[Symbol.dispose]();
    // Giving it back again changes nothing.
    taken[Symbol.dispose]();
    await after;
    const rest = await room.take({ weight: 9 });
    expect(room.full).toBe(true);
    rest[Symbol.dispose]();
  });

  it('lets the next run if a heavy one before it no longer waits', async () => {
    const room = new Semaphore(10);
    const first = await room.take({ weight: 5 });
    const stop = new AbortController();
    const heavy = room.take({ weight: 6, signal: stop.signal });
    const light = room.take({ weight: 5 });
    stop.abort();
    // It holds nothing, so it gives nothing back.
    (await heavy)[Symbol.dispose]();
    await light;
    expect(room.full).toBe(true);
    first[Symbol.dispose]();
    await room.take({ weight: 5 });
    expect(room.full).toBe(true);
  });
});

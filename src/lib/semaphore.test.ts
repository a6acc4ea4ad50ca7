import { describe, expect, it } from 'vitest';
import { Semaphore } from './semaphore.ts';

/** Everything that can go on has gone on. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('a semaphore', () => {
  it('runs so many at once, and the others in their order', async () => {
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

  it('lets go of those who no longer wait, without a free slot in between', async () => {
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
});

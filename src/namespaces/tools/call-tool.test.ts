import { describe, expect, it } from 'vitest';
import { CallSlots } from './call-tool.ts';

/** Everything that can go on has gone on. */
const turn = () => new Promise((resolve) => setImmediate(resolve));
const never = new AbortController().signal;

describe('slots', () => {
  it('let so many work at once, and the others in their order', async () => {
    const slots = new CallSlots(2);
    const begun: number[] = [];
    const ends = [0, 1, 2, 3].map(() => Promise.withResolvers<void>());
    const works = ends.map((end, index) =>
      slots.use(never, async () => {
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
    expect(await slots.use(never, async () => 'free')).toBe('free');
  });

  it('let go of those who no longer wait, without a place in between', async () => {
    const slots = new CallSlots(1);
    const end = Promise.withResolvers<void>();
    const first = slots.use(never, () => end.promise);
    const stop = new AbortController();
    const stopped = slots.use(stop.signal, async () => stop.signal.aborted);
    const third = slots.use(never, async () => 'third');
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

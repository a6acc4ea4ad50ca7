import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { bindContext, giveWay, inSlices, onBehalfOf, sortedInSlices } from './event-loop.ts';

const busy = (ms: number) => {
  const until = performance.now() + ms;
  while (performance.now() < until);
};

it('many loops at once share one slice of each turn of the event loop', async () => {
  let [steps, most, over] = [0, 0, false];
  const watching = (async () => {
    for (let before = 0; !over; before = steps) {
      await turn();
      most = Math.max(most, steps - before);
    }
  })();
  const loops = Array.from({ length: 40 }, async () => {
    for await (const _ of inSlices(Array.from({ length: 10 }))) {
      busy(1);
      steps += 1;
    }
  });
  await Promise.all(loops);
  over = true;
  await watching;
  expect(steps).toBe(400);
  // Each has its first step, and then they take turns.
  expect(most).toBeLessThan(100);
});

it('waiting loops continue in order', async () => {
  const order: number[] = [];
  busy(1);
  await giveWay();
  busy(20);
  await Promise.all([1, 2, 3].map((one) => giveWay().then(() => order.push(one))));
  expect(order).toEqual([1, 2, 3]);
});

it('a user with sixty loops takes no more turns than one with a single loop', async () => {
  let steps = 0;
  const loop = async (count: number) => {
    for await (const _ of inSlices(Array.from({ length: count }))) {
      busy(4);
      steps += 1;
    }
  };
  const many = Array.from({ length: 60 }, () => onBehalfOf('many', () => loop(4)));
  const single = onBehalfOf('single', () => bindContext(() => loop(6)));
  await single();
  // With one queue for all, the other would have had all of its 240 steps by then but a few.
  expect(steps).toBeLessThan(100);
  await Promise.all(many);
  expect(steps).toBe(246);
});

it('sorts as toSorted does, those that are equal in their order', async () => {
  const items = Array.from({ length: 9001 }, (_, number) => ({ number, key: (number * 7919) % 1000 }));
  const byKey = (one: { key: number }, other: { key: number }) => one.key - other.key;
  expect(await sortedInSlices(items, byKey)).toEqual(items.toSorted(byKey));
  const compare = (one: number, other: number) => one - other;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer(), { maxLength: 50 }), async (numbers) => {
      expect(await sortedInSlices(numbers, compare)).toEqual(numbers.toSorted(compare));
    }),
  );
});

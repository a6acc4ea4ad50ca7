import { expect, test } from 'vitest';
import { MemoizedByKey, memoize, singleFlight } from './single-flight.ts';

test('a result is cached, and a failure is not', async () => {
  let calls = 0;
  const get = memoize(async () => {
    calls++;
    if (calls === 1) throw new Error('not yet');
    return calls;
  });
  const [one, other] = [get(), get()];
  await expect(one).rejects.toThrow('not yet');
  await expect(other).rejects.toThrow('not yet');
  expect([await get(), await get()]).toEqual([2, 2]);
});

test('each key is computed once, and a failure is not cached', async () => {
  const values = new MemoizedByKey<string, string>();
  const made: string[] = [];
  const make = (key: string) => async () => {
    made.push(key);
    if (made.length === 1) throw new Error('not yet');
    return key;
  };
  await expect(values.get('a', make('a'))).rejects.toThrow('not yet');
  expect(await Promise.all(['a', 'b', 'a'].map((key) => values.get(key, make(key))))).toEqual(['a', 'b', 'a']);
  expect(made).toEqual(['a', 'a', 'b']);
});

test('running work is shared, and later done again', async () => {
  let calls = 0;
  const run = singleFlight(async () => ++calls);
  expect(await Promise.all([run(), run()])).toEqual([1, 1]);
  expect(await run()).toBe(2);
});

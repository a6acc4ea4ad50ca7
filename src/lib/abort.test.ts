import { expect, test } from 'vitest';
import { onAbort, raceAbort } from './abort.ts';

test('acts once when the signal is aborted, and at once if it already was', () => {
  const controller = new AbortController();
  let acted = 0;
  using _ = onAbort(controller.signal, () => acted++);
  expect(acted).toBe(0);
  controller.abort();
  expect(acted).toBe(1);
  using _late = onAbort(controller.signal, () => acted++);
  expect(acted).toBe(2);
});

test('does not act after it was disposed, nor without a signal', () => {
  const controller = new AbortController();
  let acted = 0;
  onAbort(controller.signal, () => acted++)[Symbol.dispose]();
  onAbort(undefined, () => acted++)[Symbol.dispose]();
  controller.abort();
  expect(acted).toBe(0);
});

test('an abort ends the wait with the given error, and not the work', async () => {
  const controller = new AbortController();
  const work = Promise.withResolvers<string>();
  const waiting = raceAbort(work.promise, controller.signal, () => new Error('given up'));
  controller.abort();
  await expect(waiting).rejects.toThrow('given up');
  work.resolve('done');
  await expect(raceAbort(work.promise, undefined, () => new Error('given up'))).resolves.toBe('done');
});

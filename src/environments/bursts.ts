/** Many changes told as one: whoever is busy finds, when it comes back, that something has changed, and not how often. */

import { setTimeout as delay } from 'node:timers/promises';

/** Yields once for all that has come since the last time; `restMs` lies between two of them. */
export async function* bursts(changes: AsyncIterable<unknown>, restMs: number): AsyncGenerator<void> {
  let news = Promise.withResolvers<void>();
  let over: { error?: unknown } | undefined;
  const pump = async () => {
    for await (const _change of changes) news.resolve();
  };
  pump().then(
    () => {
      over = {};
      news.resolve();
    },
    (error: unknown) => {
      over = { error };
      news.resolve();
    },
  );
  for (;;) {
    await news.promise;
    if (over) break;
    news = Promise.withResolvers();
    yield;
    await delay(restMs);
  }
  if ('error' in over) throw over.error;
}

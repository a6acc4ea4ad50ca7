/** One change at a time: the second builds on what the first has done. */

import { aborted } from './shared-work.ts';

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** Whoever gives up while waiting leaves the order of the others as it is. */
  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#last = before.then(() => done);
    try {
      await unlessAborted(before, signal);
      return await work();
    } finally {
      resolve();
    }
  }
}

async function unlessAborted(turn: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise: gaveUp, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(aborted());
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  try {
    await Promise.race([gaveUp, turn]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

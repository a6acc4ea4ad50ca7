/** One change at a time: the second builds on what the first has done. */

import { untilAborted } from '../../lib/deadline.ts';
import { aborted } from './shared-work.ts';

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** Whoever gives up while waiting leaves the order of the others as it is. */
  async take<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise: done, resolve } = Promise.withResolvers<void>();
    this.#last = before.then(() => done);
    try {
      await untilAborted(before, signal, aborted);
      return await work();
    } finally {
      resolve();
    }
  }
}

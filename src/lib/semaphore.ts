/** Runs a limited number of pieces of work at a time, in the order they came. */

import { onAbort } from './abort.ts';

export class Semaphore {
  #free: number;
  /** In order of arrival. Called with whether it got a slot. */
  readonly #waiting = new Set<(hasSlot: boolean) => void>();

  constructor(slots: number) {
    this.#free = slots;
  }

  /** If the signal is aborted while the work waits, it starts without a slot and reports the abort itself. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const hasSlot = await this.#take(signal);
    try {
      return await work();
    } finally {
      if (hasSlot) this.#release();
    }
  }

  async #take(signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#free > 0) {
      this.#free--;
      return true;
    }
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.add(resolve);
    using _ = onAbort(signal, () => {
      if (this.#waiting.delete(resolve)) resolve(false);
    });
    return await promise;
  }

  /** Hands the slot to the next in line: it is never free in between, so nobody gets ahead. */
  #release(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next(true);
  }
}

/** Turns that wait for an executor's place, in the order in which they came. */

interface Waiter {
  readonly enter: () => void;
}

export class Waiting {
  readonly #waiters: Waiter[] = [];

  get count(): number {
    return this.#waiters.length;
  }

  /** Resolves when its turn has come, or when it is aborted. */
  async wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiter = { enter: resolve };
    this.#waiters.push(waiter);
    const leave = () => resolve();
    signal.addEventListener('abort', leave, { once: true });
    await promise;
    signal.removeEventListener('abort', leave);
    const at = this.#waiters.indexOf(waiter);
    if (at !== -1) this.#waiters.splice(at, 1);
    // It was let in, and does not come in: the next one may.
    else if (signal.aborted) this.next();
  }

  next(): void {
    this.#waiters.shift()?.enter();
  }

  all(): void {
    for (const { enter } of this.#waiters.splice(0)) enter();
  }
}

/** Shares one run of asynchronous work among all its callers. */

/** Runs `make` once and keeps its result. A failure is not kept: the next call tries again. */
export function memoize<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/** Like `memoize`, per key. */
export class MemoizedByKey<Key, Value> {
  readonly #made = new Map<Key, Promise<Value>>();

  get(key: Key, make: () => Promise<Value>): Promise<Value> {
    const known = this.#made.get(key);
    if (known) return known;
    const making = make().catch((error) => {
      this.#made.delete(key);
      throw error;
    });
    this.#made.set(key, making);
    return making;
  }
}

/** Callers share the result while the work runs. The next call starts it again: no result is kept. */
export function singleFlight<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}

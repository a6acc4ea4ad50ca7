/** Runs one piece of work at a time, in the order it came. `runNext` goes before all that waits. Work starts synchronously if nothing runs. */

export class SerialQueue {
  readonly #urgent: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  /** Whether nobody has a turn or waits for one. */
  get free(): boolean {
    return this.#taken === 0;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#waiting, work);
  }

  /** After the one whose turn it is, and before all who wait. */
  runNext<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#urgent, work);
  }

  /** Resolves when everything that was asked for so far is over. */
  async idle(): Promise<void> {
    if (!this.free) await this.run(async () => {});
  }

  #enter<T>(queue: (() => void)[], work: () => Promise<T>): Promise<T> {
    if (this.#taken++ === 0) return this.#begin(work);
    const { promise, resolve } = Promise.withResolvers<T>();
    queue.push(() => resolve(this.#begin(work)));
    return promise;
  }

  #begin<T>(work: () => Promise<T>): Promise<T> {
    const turn = work();
    const done = () => {
      this.#taken--;
      const next = this.#urgent.shift() ?? this.#waiting.shift();
      if (next) queueMicrotask(next);
    };
    turn.then(done, done);
    return turn;
  }
}

/** A serial queue for each key. Those that are idle take no memory. */
export class KeyedSerialQueue<Key> {
  readonly #queues = new Map<Key, SerialQueue>();

  async run<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key) ?? new SerialQueue();
    this.#queues.set(key, queue);
    try {
      return await queue.run(work);
    } finally {
      if (queue.free && this.#queues.get(key) === queue) this.#queues.delete(key);
    }
  }
}

/** One thing at a time, in the order in which they came, but for what cannot wait; at once where nothing is before it. */

export class Turns {
  readonly #urgent: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  /** Whether nobody has a turn or waits for one. */
  get free(): boolean {
    return this.#taken === 0;
  }

  take<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#waiting, work);
  }

  /** After the one whose turn it is, and before all who wait. */
  takeNext<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#urgent, work);
  }

  /** Resolves when everything that was asked for so far is over. */
  async idle(): Promise<void> {
    if (!this.free) await this.take(async () => {});
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

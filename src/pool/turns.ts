/** One thing at a time, in the order in which they came; at once where nothing is before it. */

export class Turns {
  #last: Promise<unknown> = Promise.resolve();
  #taken = 0;

  /** Whether nobody has a turn or waits for one. */
  get free(): boolean {
    return this.#taken === 0;
  }

  take<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#taken++ > 0 ? this.#last : undefined;
    const turn = before ? before.then(work) : work();
    const done = () => {
      this.#taken--;
    };
    this.#last = turn.then(done, done);
    return turn;
  }

  /** Resolves when everything that was asked for so far is over. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

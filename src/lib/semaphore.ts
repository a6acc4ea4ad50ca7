/** Runs a limited number of pieces of work at a time, in the order they came. */

export class Semaphore {
  readonly #most: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(most: number) {
    this.#most = most;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running < this.#most) this.#running++;
    else await new Promise<void>((begin) => this.#waiting.push(begin));
    try {
      return await work();
    } finally {
      // Whoever waits takes this place over: it is never free in between, so that nobody gets ahead.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running--;
    }
  }
}

/** A bound on how many calls are carried out at once: code is free to ask for more, and waits its turn. */

export class Slots {
  #free: number;
  /** First come, first served. Each is told whether it got a slot. */
  readonly #waiting = new Set<(got: boolean) => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Work whose signal is aborted while it waits is begun at once, without a slot: it knows best how to say so. */
  async use<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const got = await this.#take(signal);
    try {
      return await work();
    } finally {
      if (got) this.#give();
    }
  }

  async #take(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false;
    if (this.#free > 0) {
      this.#free--;
      return true;
    }
    return await new Promise<boolean>((resolve) => {
      const stop = () => go(false);
      const go = (got: boolean) => {
        this.#waiting.delete(go);
        signal.removeEventListener('abort', stop);
        resolve(got);
      };
      this.#waiting.add(go);
      signal.addEventListener('abort', stop);
    });
  }

  #give(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free++;
    else next(true);
  }
}

/** How long a lost connection is tried again: at once, then less and less often, until too long nothing came. */

const FIRST_MS = 25;
const MOST_MS = 1000;

export class Patience {
  readonly #limitMs: number;
  #since: number | undefined;
  #pauseMs = 0;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Something came. */
  renew(): void {
    this.#since = undefined;
    this.#pauseMs = 0;
  }

  /** Somebody answered, though nothing came yet: code may be silent for long. */
  reached(): void {
    this.#since = undefined;
  }

  /** Resolves when it is time for another attempt; throws the error where there is to be none. */
  async wait(error: Error, atLeastMs = 0): Promise<void> {
    this.#since ??= performance.now();
    const pauseMs = Math.max(this.#pauseMs, atLeastMs);
    if (performance.now() - this.#since + pauseMs > this.#limitMs) throw error;
    this.#pauseMs = Math.min(MOST_MS, Math.max(FIRST_MS, this.#pauseMs * 2));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

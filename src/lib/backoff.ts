/** Waits between attempts to reach a server: first not at all, then longer and longer, until a deadline. */

const FIRST_MS = 25;
const MOST_MS = 1000;

export class Backoff {
  readonly #limitMs: number;
  #since: number | undefined;
  #pauseMs = 0;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Something came. */
  reset(): void {
    this.#since = undefined;
    this.#pauseMs = 0;
  }

  /** Somebody answered, though nothing came yet: code may be silent for long. */
  restartDeadline(): void {
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

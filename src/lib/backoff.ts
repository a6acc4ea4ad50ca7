/** Waits between attempts to reach a server: not at all at first, then longer each time, until a deadline. */

const FIRST_MS = 25;
const MOST_MS = 1000;

export class Backoff {
  readonly #limitMs: number;
  #since: number | undefined;
  #pauseMs = 0;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  /** Data arrived. */
  reset(): void {
    this.#since = undefined;
    this.#pauseMs = 0;
  }

  /** The server answered but sent no data yet: code may print nothing for a long time. */
  restartDeadline(): void {
    this.#since = undefined;
  }

  /** Resolves when it is time for another attempt. Throws the error once the deadline is over. */
  async wait(error: Error, atLeastMs = 0): Promise<void> {
    this.#since ??= performance.now();
    const pauseMs = Math.max(this.#pauseMs, atLeastMs);
    if (performance.now() - this.#since + pauseMs > this.#limitMs) throw error;
    this.#pauseMs = Math.min(MOST_MS, Math.max(FIRST_MS, this.#pauseMs * 2));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

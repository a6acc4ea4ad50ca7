/** The clock of one execution: it stops for input(), asks the code to stop at the timeout, and ends it after the grace. */

export class StopClock {
  readonly #graceMs: number;
  readonly #on: { timeout: () => void; kill: () => void };
  #leftMs: number;
  #startedAt = 0;
  #timer: NodeJS.Timeout | undefined;
  #kill: NodeJS.Timeout | undefined;

  constructor(settings: { timeoutMs: number; graceMs: number }, on: { timeout: () => void; kill: () => void }) {
    this.#leftMs = settings.timeoutMs;
    this.#graceMs = settings.graceMs;
    this.#on = on;
    this.resume();
  }

  /** Waiting for a person does not count. */
  pause(): void {
    if (!this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#startedAt));
  }

  resume(): void {
    if (this.#leftMs <= 0 || this.#timer || this.#kill) return;
    this.#startedAt = performance.now();
    this.#timer = setTimeout(this.#on.timeout, this.#leftMs);
  }

  /** The code was asked to stop: from here it has the grace period. */
  grace(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#kill ??= setTimeout(this.#on.kill, this.#graceMs);
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#kill);
  }
}

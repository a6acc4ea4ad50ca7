/** The clock of one execution: it stops for input(), asks the code to stop at the timeout, and ends it after the grace. */

import { whenLate } from './late.ts';

export class StopClock {
  readonly #graceMs: number;
  readonly #on: { timeout: () => void; kill: () => void };
  #leftMs: number;
  #startedAt = 0;
  #timer: (() => void) | undefined;
  #kill: (() => void) | undefined;

  constructor(settings: { timeoutMs: number; graceMs: number }, on: { timeout: () => void; kill: () => void }) {
    this.#leftMs = settings.timeoutMs;
    this.#graceMs = settings.graceMs;
    this.#on = on;
    this.resume();
  }

  /** Waiting for a person does not count. */
  pause(): void {
    if (!this.#timer) return;
    this.#timer();
    this.#timer = undefined;
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#startedAt));
  }

  resume(): void {
    if (this.#leftMs <= 0 || this.#timer || this.#kill) return;
    this.#startedAt = performance.now();
    this.#timer = whenLate(this.#leftMs, this.#on.timeout);
  }

  /** The code was asked to stop: from here it has the grace period. */
  grace(): void {
    this.#timer?.();
    this.#timer = undefined;
    this.#kill ??= whenLate(this.#graceMs, this.#on.kill);
  }

  stop(): void {
    this.#timer?.();
    this.#kill?.();
  }
}

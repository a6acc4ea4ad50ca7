/** Limits a rate: starts full, with `burst` tokens, and gets another one every `msPerToken`. */
export class TokenBucket {
  readonly #burst: number;
  readonly #msPerToken: number;
  #left: number;
  #filledAt: number;

  /** `now`: milliseconds that never go back, as in every call. */
  constructor(burst: number, msPerToken: number, now: number, left = burst) {
    this.#burst = burst;
    this.#msPerToken = msPerToken;
    this.#left = left;
    this.#filledAt = now;
  }

  /** In how many milliseconds there will be so many tokens: 0 if there are. */
  wait(count: number, now: number): number {
    const filled = Math.max(0, now - this.#filledAt) / this.#msPerToken;
    this.#left = Math.min(this.#burst, this.#left + filled);
    this.#filledAt = now;
    return this.#left < count ? Math.ceil((count - this.#left) * this.#msPerToken) : 0;
  }

  /** Takes them and returns 0, or takes none and returns how long to wait for them. */
  take(count: number, now: number): number {
    const wait = this.wait(count, now);
    if (wait === 0) this.#left -= count;
    return wait;
  }
}

/** What is held of requests that are still under way: so many bytes at most for each, however many requests they are of. */

import { CellaError } from '../protocol/errors.ts';

export interface Hold extends Disposable {
  /** RATE_LIMITED where these are too many beside what is held already; until it is disposed of they count. */
  take(bytes: number): void;
}

export class HeldBytes {
  readonly #most: number;
  readonly #held = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  begin(whose: string): Hold {
    let own = 0;
    const be = (bytes: number) => {
      const all = (this.#held.get(whose) ?? 0) - own + bytes;
      if (all === 0) this.#held.delete(whose);
      else this.#held.set(whose, all);
      own = bytes;
      return all;
    };
    return {
      take: (bytes) => {
        if (be(own + bytes) <= this.#most) return;
        const message = `Requests that are under way hold more than ${this.#most} bytes.`;
        throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
      },
      [Symbol.dispose]: () => void be(0),
    };
  }
}

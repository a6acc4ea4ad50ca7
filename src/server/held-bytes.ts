/** What is held of requests that are still under way: so many bytes at most for each, however many requests they are of. */

import { CellaError } from '../protocol/errors.ts';

export interface Hold extends Disposable {
  /** RATE_LIMITED where these are too many beside what is held already; until it is disposed of they count. */
  take(bytes: number): void;
  /** As `take`, where it is known how many they are by now: more than before, or fewer. */
  be(bytes: number): void;
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
      const more = bytes - own;
      const all = (this.#held.get(whose) ?? 0) + more;
      own = bytes;
      if (all === 0) this.#held.delete(whose);
      else this.#held.set(whose, all);
      if (more <= 0 || all <= this.#most) return;
      const message = `Requests that are under way hold more than ${this.#most} bytes.`;
      throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
    };
    return { be, take: (bytes) => be(own + bytes), [Symbol.dispose]: () => be(0) };
  }
}

/** What is held of requests that are still under way: so many bytes at most, however many requests they are of. */

import { CellaError } from '../protocol/errors.ts';

export interface Hold extends Disposable {
  /** RATE_LIMITED where these are too many beside what is held already; until it is disposed of they count. */
  take(bytes: number): void;
}

export class HeldBytes {
  readonly #most: number;
  #held = 0;

  constructor(most: number) {
    this.#most = most;
  }

  begin(): Hold {
    let own = 0;
    return {
      take: (bytes) => {
        own += bytes;
        this.#held += bytes;
        if (this.#held <= this.#most) return;
        const message = `Requests that are under way hold more than ${this.#most} bytes.`;
        throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
      },
      [Symbol.dispose]: () => {
        this.#held -= own;
        own = 0;
      },
    };
  }
}

/** Requests that are under way, by whom they are of: whoever floods is held up before they are read, or while they are, and nobody else. */

import { CellaError } from '../protocol/errors.ts';
import { HeldBytes, type Hold } from './held-bytes.ts';

interface Requests {
  count: number;
  readonly bytes: HeldBytes;
}

export class Crowd {
  readonly #most: number;
  readonly #mostBytes: number;
  readonly #requests = new Map<string, Requests>();

  /** `mostBytes`: of the bodies of all requests of one. */
  constructor(most: number, mostBytes: number) {
    this.#most = most;
    this.#mostBytes = mostBytes;
  }

  enter(whose: string): Hold {
    const own = this.#requests.get(whose) ?? { count: 0, bytes: new HeldBytes(this.#mostBytes) };
    if (own.count >= this.#most) {
      throw new CellaError('RATE_LIMITED', `There are ${own.count} requests of this kind under way.`, {
        details: { retryAfterMs: 1000 },
      });
    }
    own.count++;
    this.#requests.set(whose, own);
    const hold = own.bytes.begin();
    const leave = () => {
      hold[Symbol.dispose]();
      if (--own.count === 0) this.#requests.delete(whose);
    };
    return { take: hold.take, [Symbol.dispose]: leave };
  }
}

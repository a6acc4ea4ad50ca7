/** The calls that are under way, by session: an agent that floods is held up before its requests are read, or while they are. */

import { CellaError } from '../../protocol/errors.ts';
import { HeldBytes, type Hold } from '../held-bytes.ts';

interface Calls {
  count: number;
  readonly bytes: HeldBytes;
}

export class Crowd {
  readonly #most: number;
  readonly #mostBytes: number;
  readonly #calls = new Map<string, Calls>();

  /** `mostBytes`: of the bodies of all calls of a session. */
  constructor(most: number, mostBytes: number) {
    this.#most = most;
    this.#mostBytes = mostBytes;
  }

  enter(session: string): Hold {
    const calls = this.#calls.get(session) ?? { count: 0, bytes: new HeldBytes(this.#mostBytes) };
    if (calls.count >= this.#most) {
      throw new CellaError('RATE_LIMITED', `This session has ${calls.count} model calls under way.`, {
        details: { retryAfterMs: 1000 },
      });
    }
    calls.count++;
    this.#calls.set(session, calls);
    const hold = calls.bytes.begin();
    const leave = () => {
      hold[Symbol.dispose]();
      if (--calls.count === 0) this.#calls.delete(session);
    };
    return { take: hold.take, [Symbol.dispose]: leave };
  }
}

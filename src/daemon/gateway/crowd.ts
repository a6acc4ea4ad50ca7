/** The calls that are under way, by session: an agent that floods is held up before its requests are read. */

import { CellaError } from '../../protocol/errors.ts';

export class Crowd {
  readonly #most: number;
  readonly #calls = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  enter(session: string): Disposable {
    const calls = this.#calls.get(session) ?? 0;
    if (calls >= this.#most) {
      throw new CellaError('RATE_LIMITED', `This session has ${calls} model calls under way.`, {
        details: { retryAfterMs: 1000 },
      });
    }
    this.#calls.set(session, calls + 1);
    return { [Symbol.dispose]: () => this.#leave(session) };
  }

  #leave(session: string): void {
    const left = (this.#calls.get(session) ?? 1) - 1;
    if (left > 0) this.#calls.set(session, left);
    else this.#calls.delete(session);
  }
}

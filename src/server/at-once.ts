/** How many of one kind each has under way: so many at a time, so that none takes all that the server has. */

import type { CellaError } from '../protocol/errors.ts';

export class AtOnce {
  readonly #most: number;
  readonly #refusal: (most: number) => CellaError;
  readonly #counts = new Map<string, number>();

  constructor(most: number, refusal: (most: number) => CellaError) {
    this.#most = most;
    this.#refusal = refusal;
  }

  /** Throws where one more is too many. */
  check(whose: string): void {
    if (this.isFull(whose)) throw this.#refusal(this.#most);
  }

  isFull(whose: string): boolean {
    return this.#of(whose) >= this.#most;
  }

  /** Gives what to call when it has gone. */
  enter(whose: string): () => void {
    this.#counts.set(whose, this.#of(whose) + 1);
    return () => {
      const others = this.#of(whose) - 1;
      if (others === 0) this.#counts.delete(whose);
      else this.#counts.set(whose, others);
    };
  }

  #of(whose: string): number {
    return this.#counts.get(whose) ?? 0;
  }
}

/** How much of one kind a session has open: so many at a time, so that none takes all that the server has. */

import { CellaError } from '../../protocol/errors.ts';

export class PerSession {
  readonly #what: string;
  readonly #most: number;
  readonly #counts = new Map<string, number>();

  constructor(what: string, most: number) {
    this.#what = what;
    this.#most = most;
  }

  /** QUOTA_EXCEEDED where it is one too many. */
  check(id: string): void {
    if (!this.full(id)) return;
    const message = `The session has ${this.#most} open ${this.#what} already.`;
    throw new CellaError('QUOTA_EXCEEDED', message, { details: { most: this.#most } });
  }

  full(id: string): boolean {
    return (this.#counts.get(id) ?? 0) >= this.#most;
  }

  /** Gives what to call when it has gone. */
  enter(id: string): () => void {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    return () => {
      const others = (this.#counts.get(id) ?? 1) - 1;
      if (others === 0) this.#counts.delete(id);
      else this.#counts.set(id, others);
    };
  }
}

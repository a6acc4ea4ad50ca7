/** Clients that follow a session, by their credential: so many at a time, so that none takes all connections. */

import { CellaError } from '../../protocol/errors.ts';
import type { Principal } from '../access/contract.ts';
import type { ClientKind, HttpMetrics } from './metrics.ts';

const MOST_OF_ONE = 1000;

export class Followers {
  readonly #metrics: HttpMetrics;
  readonly #counts = new Map<string, number>();

  constructor(metrics: HttpMetrics) {
    this.#metrics = metrics;
  }

  /** Before something begins for it that it could not follow. */
  check({ credential: { id } }: Principal): void {
    if ((this.#counts.get(id) ?? 0) < MOST_OF_ONE) return;
    const message = `${MOST_OF_ONE} connections follow sessions with this token already.`;
    throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
  }

  /** Gives what to call when it has gone. */
  enter(principal: Principal, kind: ClientKind): () => void {
    const { id } = principal.credential;
    const gone = this.#metrics.client(kind);
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    return () => {
      gone();
      const left = (this.#counts.get(id) ?? 1) - 1;
      if (left === 0) this.#counts.delete(id);
      else this.#counts.set(id, left);
    };
  }
}

/** Clients that follow a session, by their credential: so many at a time, so that none takes all connections. */

import { CellaError } from '../../protocol/errors.ts';
import type { Principal } from '../access/access-control.ts';
import { ConcurrencyLimit } from '../request-limits.ts';
import type { ClientKind, HttpMetrics } from './metrics.ts';

const MOST_OF_ONE = 1000;

export class Followers {
  readonly #metrics: HttpMetrics;
  readonly #open = new ConcurrencyLimit(MOST_OF_ONE, tooMany);

  constructor(metrics: HttpMetrics) {
    this.#metrics = metrics;
  }

  /** Before something begins for it that it could not follow. */
  check({ authMethod: credential }: Principal): void {
    this.#open.check(credential.id);
  }

  /** Gives what to call when it has gone. */
  enter(principal: Principal, kind: ClientKind): () => void {
    const gone = this.#metrics.client(kind);
    const left = this.#open.enter(principal.authMethod.id);
    return () => {
      gone();
      left();
    };
  }
}

function tooMany(most: number): CellaError {
  const message = `${most} connections follow sessions with this token already.`;
  return new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
}

/** Clients that follow a session, by their credential: a bounded number, so that none takes all connections. */

import { CellaError } from '../../protocol/errors.ts';
import { ConcurrencyLimit } from '../request-limits.ts';

const MOST_FOLLOWERS = 1000;

export type ClientKind = 'websocket' | 'ndjson' | 'sse' | 'terminal';

/** Counts a connection; returns a function to call at its end. */
type CountClient = (kind: ClientKind) => () => void;

interface Follower {
  readonly authMethod: { readonly id: string };
}

/** Clients that follow a session, by their credential: a bounded number, so that none takes all connections. */
export class Followers {
  readonly #count: CountClient;
  readonly #open = new ConcurrencyLimit(MOST_FOLLOWERS, tooManyFollowers);

  constructor(count: CountClient) {
    this.#count = count;
  }

  /** Call it before something starts that the client could not follow. */
  check({ authMethod }: Follower): void {
    this.#open.check(authMethod.id);
  }

  /** Returns a function to call at its end. */
  enter({ authMethod }: Follower, kind: ClientKind): () => void {
    const gone = this.#count(kind);
    const left = this.#open.enter(authMethod.id);
    return () => {
      gone();
      left();
    };
  }
}

function tooManyFollowers(most: number): CellaError {
  const message = `${most} connections follow sessions with this token already.`;
  return new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
}

/** Limits on what one client can make the server do or hold: rates, concurrency, bytes of unfinished requests. */

import { BoundedMap } from '../lib/bounded-map.ts';
import { CellaError } from '../protocol/errors.ts';

export interface RateOptions {
  readonly perSecond?: number;
  /** How many may come at once. */
  readonly burst?: number;
  readonly mostBuckets?: number;
  /** What there is too much of, in words. */
  readonly what?: string;
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
}

/** Starts full, with `burst` tokens, and is filled at a constant rate. */
class TokenBucket {
  readonly #burst: number;
  readonly #perSecond: number;
  #left: number;
  #filledAt: number;

  constructor(burst: number, perSecond: number, now: number) {
    this.#burst = burst;
    this.#perSecond = perSecond;
    this.#left = burst;
    this.#filledAt = now;
  }

  /** Takes them and returns 0, or returns in how many milliseconds there will be enough. */
  take(count: number, now: number): number {
    const filled = (Math.max(0, now - this.#filledAt) / 1000) * this.#perSecond;
    this.#left = Math.min(this.#burst, this.#left + filled);
    this.#filledAt = now;
    if (this.#left < count) return Math.ceil(((count - this.#left) / this.#perSecond) * 1000);
    this.#left -= count;
    return 0;
  }
}

/** A token bucket per key, in the memory of this server. A bounded number of buckets is kept. */
export class RateLimiter {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #what: string;
  readonly #elapsed: () => number;
  readonly #buckets: BoundedMap<string, TokenBucket>;

  constructor({
    perSecond = 100,
    burst = 500,
    mostBuckets = 10_000,
    what = 'Too many requests',
    elapsed = () => performance.now(),
  }: RateOptions = {}) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#what = what;
    this.#buckets = new BoundedMap(mostBuckets);
    this.#elapsed = elapsed;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /**
   * Counts a request, or fails with RATE_LIMITED and `details.retryAfterMs`. `wanted`: how many requests it counts as. A
   * request that costs more than a full bucket takes a full one.
   */
  admit(key: string, wanted = 1): void {
    const now = this.#elapsed();
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#burst, this.#perSecond, now);
    // Also where it was there: the bucket that was set longest ago is the first to go.
    this.#buckets.set(key, bucket);
    const retryAfterMs = bucket.take(Math.min(wanted, this.#burst), now);
    if (retryAfterMs === 0) return;
    throw new CellaError('RATE_LIMITED', `${this.#what}: try again in ${retryAfterMs} ms.`, {
      details: { retryAfterMs },
    });
  }
}

/** How many frames one WebSocket client may send. */
export class FrameRateLimit {
  readonly #frames = new TokenBucket(2000, 1000, performance.now());
  readonly #control = new TokenBucket(1000, 50, performance.now());

  /** False if it is one too many. */
  frame(): boolean {
    return this.#frames.take(1, performance.now()) === 0;
  }

  /** Pings and pongs. */
  control(): boolean {
    return this.#control.take(1, performance.now()) === 0;
  }
}

/** How many of one kind each key may have at a time. */
export class ConcurrencyLimit {
  readonly #most: number;
  readonly #refusal: (most: number) => CellaError;
  readonly #counts = new Map<string, number>();

  constructor(most: number, refusal: (most: number) => CellaError) {
    this.#most = most;
    this.#refusal = refusal;
  }

  /** Throws if one more is too many. */
  check(whose: string): void {
    if (this.isFull(whose)) throw this.#refusal(this.#most);
  }

  isFull(whose: string): boolean {
    return this.#of(whose) >= this.#most;
  }

  /** Returns a function to call at its end. */
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

/** How many of one kind a session may have open. QUOTA_EXCEEDED if it is one too many. */
export function perSessionLimit(what: string, most: number): ConcurrencyLimit {
  const message = `The session has ${most} open ${what} already.`;
  return new ConcurrencyLimit(most, () => new CellaError('QUOTA_EXCEEDED', message, { details: { most } }));
}

export interface ByteReservation extends Disposable {
  /** RATE_LIMITED if these bytes are too many beside what is held already. They count until it is disposed of. */
  add(bytes: number): void;
  /** As `add`, but sets the total of this reservation. */
  resize(bytes: number): void;
}

/** Bytes that unfinished requests hold in memory, per key. */
export class ByteBudget {
  readonly #most: number;
  readonly #held = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  reserve(whose: string): ByteReservation {
    let own = 0;
    const resize = (bytes: number) => {
      const more = bytes - own;
      const all = (this.#held.get(whose) ?? 0) + more;
      own = bytes;
      if (all === 0) this.#held.delete(whose);
      else this.#held.set(whose, all);
      if (more <= 0 || all <= this.#most) return;
      const message = `Requests that are under way hold more than ${this.#most} bytes.`;
      throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
    };
    return { resize, add: (bytes) => resize(own + bytes), [Symbol.dispose]: () => resize(0) };
  }
}

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

/** Limits on rates, concurrency and memory that one client can use. */

import { BoundedMap } from '../lib/bounded-map.ts';
import { TokenBucket } from '../lib/token-bucket.ts';
import { CellaError } from '../protocol/errors.ts';

export interface RateOptions {
  readonly perSecond?: number;
  /** How many may come at once. */
  readonly burst?: number;
  readonly mostBuckets?: number;
  /** Begins the message of the error. */
  readonly what?: string;
  /** Milliseconds that never go back. */
  readonly elapsed?: () => number;
}

/** A token bucket per key, in the memory of this server. A bounded number of buckets is kept. */
export class RateLimiter {
  readonly #msPerToken: number;
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
    this.#msPerToken = 1000 / perSecond;
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
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#burst, this.#msPerToken, now);
    // Set an existing bucket again, too: the map drops the bucket that was set longest ago.
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
  readonly #frames = new TokenBucket(2000, 1, performance.now());
  readonly #control = new TokenBucket(1000, 20, performance.now());

  /** False if it is one too many. */
  frame(): boolean {
    return this.#frames.take(1, performance.now()) === 0;
  }

  /** Pings and pongs. */
  control(): boolean {
    return this.#control.take(1, performance.now()) === 0;
  }
}

/** Limits how many each key may have at a time. */
export class ConcurrencyLimit {
  readonly #most: number;
  readonly #refusal: (most: number) => CellaError;
  readonly #counts = new Map<string, number>();

  constructor(most: number, refusal: (most: number) => CellaError) {
    this.#most = most;
    this.#refusal = refusal;
  }

  /** Counts one more until disposed of, or throws if that is too many. Synchronous, so concurrent callers cannot exceed it. */
  enter(whose: string): Disposable {
    const before = this.#counts.get(whose) ?? 0;
    if (before >= this.#most) throw this.#refusal(this.#most);
    this.#counts.set(whose, before + 1);
    // A DisposableStack runs its callbacks only once, even if it is disposed of repeatedly.
    const place = new DisposableStack();
    place.defer(() => {
      const others = (this.#counts.get(whose) ?? 0) - 1;
      if (others === 0) this.#counts.delete(whose);
      else this.#counts.set(whose, others);
    });
    return place;
  }
}

/** Limits how many a session may have open, with QUOTA_EXCEEDED. */
export function perSessionLimit(what: string, most: number): ConcurrencyLimit {
  const message = `The session already has ${most} open ${what}.`;
  return new ConcurrencyLimit(most, () => new CellaError('QUOTA_EXCEEDED', message, { details: { most } }));
}

export interface ByteReservation extends Disposable {
  /** Throws RATE_LIMITED if the key would hold too many bytes. They count until disposed of. */
  add(bytes: number): void;
  /** As `add`, but sets the total of this reservation. */
  resize(bytes: number): void;
}

/** Bytes that unfinished requests hold in memory, per key. */
export class ByteLimit {
  readonly #most: number;
  readonly #what: string;
  readonly #held = new Map<string, number>();

  /** `what` begins the message of the error. */
  constructor(most: number, what = 'Requests in progress') {
    this.#most = most;
    this.#what = what;
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
      const message = `${this.#what} use more than ${this.#most} bytes.`;
      throw new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
    };
    return { resize, add: (bytes) => resize(own + bytes), [Symbol.dispose]: () => resize(0) };
  }
}

export type ClientKind = 'websocket' | 'ndjson' | 'sse' | 'terminal';

/** Counts a connection; returns a function to call at its end. */
type CountClient = (kind: ClientKind) => () => void;

interface Follower {
  readonly userId: string;
  readonly authMethod: { readonly id: string };
}

/** The limit of a user is this many times the limit of one token or login. */
export const CREDENTIALS_AT_ONCE = 4;

/** Limits clients that follow sessions, per credential and per user, so that none takes all connections. */
export class Followers {
  readonly #count: CountClient;
  readonly #open: ConcurrencyLimit;
  readonly #openOfUser: ConcurrencyLimit;

  constructor(most: number, count: CountClient) {
    this.#open = new ConcurrencyLimit(most, tooManyFollowers('with this token'));
    this.#openOfUser = new ConcurrencyLimit(CREDENTIALS_AT_ONCE * most, tooManyFollowers('of this user'));
    this.#count = count;
  }

  /** Counts one more until disposed of. Throws RATE_LIMITED at the limit, so call it before starting the work to follow. */
  enter({ userId, authMethod }: Follower, kind: ClientKind): Disposable {
    using place = new DisposableStack();
    place.use(this.#open.enter(authMethod.id));
    place.use(this.#openOfUser.enter(userId));
    place.defer(this.#count(kind));
    return place.move();
  }
}

const tooManyFollowers =
  (whose: string) =>
  (most: number): CellaError => {
    const message = `${most} connections ${whose} already follow sessions.`;
    return new CellaError('RATE_LIMITED', message, { details: { retryAfterMs: 1000 } });
  };

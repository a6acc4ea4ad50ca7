/** Rate limits: a bucket for each key that is filled again at a steady rate, and so many buckets at most. */

import { CellaError } from '../../protocol/errors.ts';
import { Latest } from '../latest.ts';
import type { Rates } from './contract.ts';

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

interface Bucket {
  readonly left: number;
  readonly at: number;
}

export class Buckets implements Rates {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #what: string;
  readonly #elapsed: () => number;
  readonly #buckets: Latest<string, Bucket>;

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
    this.#buckets = new Latest(mostBuckets);
    this.#elapsed = elapsed;
  }

  get size(): number {
    return this.#buckets.size;
  }

  /** What costs more than may come at once waits for a full bucket, and takes all of it. */
  admit(key: string, wanted = 1): void {
    const cost = Math.min(wanted, this.#burst);
    const at = this.#elapsed();
    const before = this.#buckets.get(key) ?? { left: this.#burst, at };
    const filled = (Math.max(0, at - before.at) / 1000) * this.#perSecond;
    const left = Math.min(this.#burst, before.left + filled);
    this.#buckets.set(key, { left: left < cost ? left : left - cost, at });
    if (left >= cost) return;
    const retryAfterMs = Math.ceil(((cost - left) / this.#perSecond) * 1000);
    throw new CellaError('RATE_LIMITED', `${this.#what}: try again in ${retryAfterMs} ms.`, {
      details: { retryAfterMs },
    });
  }
}

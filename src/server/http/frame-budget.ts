/** How many frames one client may send: so many at once, and then so many a second. */

interface Bucket {
  readonly most: number;
  readonly perSecond: number;
  left: number;
  at: number;
}

const bucket = (most: number, perSecond: number): Bucket => ({ most, perSecond, left: most, at: 0 });

export class FrameBudget {
  readonly #clock: () => number;
  readonly #frames = bucket(2000, 1000);
  readonly #control = bucket(1000, 50);

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** False where it is one too many. */
  frame(): boolean {
    return this.#spend(this.#frames);
  }

  /** Pings and pongs. */
  control(): boolean {
    return this.#spend(this.#control);
  }

  #spend(from: Bucket): boolean {
    const now = this.#clock();
    if (from.at > 0) from.left = Math.min(from.most, from.left + ((now - from.at) / 1000) * from.perSecond);
    from.at = now;
    if (from.left < 1) return false;
    from.left -= 1;
    return true;
  }
}

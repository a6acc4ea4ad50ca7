/** How many kernels may live at a time: who comes when there is no room puts the longest idle one to sleep, or waits. */

import { CellaError } from '../protocol/errors.ts';

/** A kernel's place among those that may live. */
export interface Slot {
  give(): void;
}

/** Whoever has a slot. */
export interface Holder {
  /** Since when it has had nothing to do; undefined while it has. */
  readonly idleSince?: number | undefined;
  hibernate(): Promise<void>;
}

export interface Slots {
  take(holder: Holder): Promise<Slot>;
  /** Called when a holder has become idle: those who wait may need its place. */
  makeRoom(): void;
}

const ignore = () => {};

/** As many as anybody wants. */
export const unlimited: Slots = { take: async () => ({ give: ignore }), makeRoom: ignore };

interface Waiter {
  readonly holder: Holder;
  readonly resolve: (slot: Slot) => void;
}

export class LimitedSlots implements Slots {
  readonly #most: number;
  readonly #waitMs: number;
  readonly #holders = new Set<Holder>();
  readonly #waiters: Waiter[] = [];
  readonly #leaving = new Set<Holder>();
  #waits = 0;

  constructor(most: number, waitMs: number) {
    this.#most = most;
    this.#waitMs = waitMs;
  }

  get live(): number {
    return this.#holders.size;
  }

  /** How many had to wait so far. */
  get waits(): number {
    return this.#waits;
  }

  take(holder: Holder): Promise<Slot> {
    if (this.#holders.size < this.#most && this.#waiters.length === 0) return Promise.resolve(this.#grant(holder));
    this.#waits++;
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    const waiter: Waiter = {
      holder,
      resolve: (slot) => {
        clearTimeout(timer);
        resolve(slot);
      },
    };
    const timer = setTimeout(() => {
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
      const message = `All ${this.#most} kernels are at work, and none came free within ${this.#waitMs / 1000} s.`;
      reject(new CellaError('POOL_EXHAUSTED', message, { details: { maxKernels: this.#most } }));
    }, this.#waitMs);
    this.#waiters.push(waiter);
    this.makeRoom();
    return promise;
  }

  makeRoom(): void {
    while (this.#leaving.size < this.#waiters.length) {
      const idle = [...this.#holders].filter((one) => one.idleSince !== undefined && !this.#leaving.has(one));
      const longest = idle.toSorted((one, other) => (one.idleSince ?? 0) - (other.idleSince ?? 0))[0];
      if (!longest) return;
      this.#leaving.add(longest);
      const over = () => void this.#leaving.delete(longest);
      // It gives its slot when it sleeps. One that cannot be put to sleep stays as it is.
      longest.hibernate().then(over, over);
    }
  }

  #grant(holder: Holder): Slot {
    this.#holders.add(holder);
    let given = false;
    return {
      give: () => {
        if (given) return;
        given = true;
        this.#holders.delete(holder);
        const next = this.#holders.size < this.#most ? this.#waiters.shift() : undefined;
        next?.resolve(this.#grant(next.holder));
      },
    };
  }
}

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

/** Whoever wants a slot: told where it stands, and may leave the queue. */
export interface Queuer {
  /** There is no room: it waits. `leave` takes it out of the queue. */
  queued(leave: (reason: CellaError) => void): void;
  /** It has its slot. */
  placed(): void;
}

export interface Slots {
  take(holder: Holder): Promise<Slot>;
  /** Called when a holder has become idle: those who wait may need its place. */
  makeRoom(): void;
}

const ignore = () => {};

/** As many as anybody wants. */
export const unlimited: Slots = { take: async () => ({ give: ignore }), makeRoom: ignore };

/** After this long, a kernel that is being put to sleep is not counted on any more: its code may keep it from being saved. */
const SLOW_MS = 1000;

interface Waiter {
  readonly holder: Holder;
  readonly resolve: (slot: Slot) => void;
}

export class LimitedSlots implements Slots {
  readonly #most: number;
  readonly #waitMs: number;
  readonly #holders = new Set<Holder>();
  readonly #waiters: Waiter[] = [];
  /** Those that were asked to sleep, and those of them that are counted on. */
  readonly #leaving = new Set<Holder>();
  readonly #expected = new Set<Holder>();
  /** Those that could not be put to sleep: no use to those who wait by now. */
  readonly #sleepless = new Set<Holder>();
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

  take(holder: Holder, queuer: Queuer = new Deadline(this.#waitMs, (waitMs) => this.exhausted(waitMs))): Promise<Slot> {
    if (this.#holders.size < this.#most && this.#waiters.length === 0) {
      queuer.placed();
      return Promise.resolve(this.#grant(holder));
    }
    this.#waits++;
    const { promise, resolve, reject } = Promise.withResolvers<Slot>();
    const waiter: Waiter = {
      holder,
      resolve: (slot) => {
        queuer.placed();
        resolve(slot);
      },
    };
    this.#waiters.push(waiter);
    queuer.queued((reason) => {
      const at = this.#waiters.indexOf(waiter);
      if (at >= 0) this.#waiters.splice(at, 1);
      reject(reason);
    });
    this.#sleepless.clear();
    this.makeRoom();
    return promise;
  }

  /** For one who has waited for so long in vain. */
  exhausted(waitMs: number): CellaError {
    const message = `All ${this.#most} kernels are at work, and none came free within ${waitMs / 1000} s.`;
    return new CellaError('POOL_EXHAUSTED', message, { details: { maxKernels: this.#most, waitMs } });
  }

  makeRoom(): void {
    while (this.#expected.size < this.#waiters.length) {
      const useful = (one: Holder) => !this.#leaving.has(one) && !this.#sleepless.has(one);
      const idle = [...this.#holders].filter((one) => one.idleSince !== undefined && useful(one));
      const longest = idle.toSorted((one, other) => (one.idleSince ?? 0) - (other.idleSince ?? 0))[0];
      if (!longest) return;
      void this.#putToSleep(longest);
    }
  }

  /** It gives its slot when it sleeps. Where it is slow, or cannot sleep, another one is asked. */
  async #putToSleep(holder: Holder): Promise<void> {
    this.#leaving.add(holder);
    this.#expected.add(holder);
    const timer = setTimeout(() => {
      this.#expected.delete(holder);
      this.makeRoom();
    }, SLOW_MS).unref();
    try {
      await holder.hibernate();
    } catch {
      // Told to its own session by its next call; it stays as it is.
      this.#sleepless.add(holder);
    } finally {
      clearTimeout(timer);
      this.#leaving.delete(holder);
      this.#expected.delete(holder);
    }
    this.makeRoom();
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

/** One who waits for so long. */
class Deadline implements Queuer {
  readonly #waitMs: number;
  readonly #over: (waitMs: number) => CellaError;
  #timer: NodeJS.Timeout | undefined;

  constructor(waitMs: number, over: (waitMs: number) => CellaError) {
    this.#waitMs = waitMs;
    this.#over = over;
  }

  queued(leave: (reason: CellaError) => void): void {
    this.#timer = setTimeout(() => leave(this.#over(this.#waitMs)), this.#waitMs);
  }

  placed(): void {
    clearTimeout(this.#timer);
  }
}

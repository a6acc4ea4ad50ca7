/**
 * Limits how many kernels live at a time. If no slot is free, a caller hibernates the kernel that has been idle longest, or
 * waits.
 */

import { onAbort } from '../lib/abort.ts';
import { CellaError } from '../protocol/errors.ts';

/** The right of one kernel to be alive. */
export interface KernelSlot {
  release(): void;
}

/** The user of a slot. */
export interface SlotOwner {
  /** Since when it has been idle; undefined while it is busy. */
  readonly idleSince?: number | undefined;
  hibernate(): Promise<void>;
}

/** A caller that waits for a slot, and may leave the queue. */
interface SlotWaiter {
  /** No slot is free: it waits. `leave` takes it out of the queue. */
  queued(leave: (reason: CellaError) => void): void;
  /** It has its slot. */
  placed(): void;
}

export interface KernelSlots {
  take(owner: SlotOwner): Promise<KernelSlot>;
  /** Call this when an owner becomes idle, because a waiting caller may need its slot. */
  hibernateIdle(): void;
}

const ignore = () => {};

/** No limit. */
export const unlimitedSlots: KernelSlots = { take: async () => ({ release: ignore }), hibernateIdle: ignore };

/** A kernel that takes longer to hibernate is no longer expected to: its code may keep it from being saved. */
const SLOW_MS = 1000;

interface QueuedWaiter {
  readonly owner: SlotOwner;
  readonly resolve: (slot: KernelSlot) => void;
}

export class LimitedKernelSlots implements KernelSlots {
  readonly #most: number;
  readonly #waitMs: number;
  readonly #owners = new Set<SlotOwner>();
  readonly #waiters: QueuedWaiter[] = [];
  /** The owners that are hibernating, and which of those are expected to succeed. */
  readonly #leaving = new Set<SlotOwner>();
  readonly #expected = new Set<SlotOwner>();
  /** Owners that could not hibernate. They are not asked again for the callers that wait now. */
  readonly #failedToHibernate = new Set<SlotOwner>();
  #waits = 0;

  constructor(most: number, waitMs: number) {
    this.#most = most;
    this.#waitMs = waitMs;
  }

  get live(): number {
    return this.#owners.size;
  }

  /** How many callers had to wait so far. */
  get waits(): number {
    return this.#waits;
  }

  take(
    owner: SlotOwner,
    queuer: SlotWaiter = new WaitDeadline(this.#waitMs, (waitMs) => this.exhausted(waitMs)),
  ): Promise<KernelSlot> {
    if (this.#owners.size < this.#most && this.#waiters.length === 0) {
      queuer.placed();
      return Promise.resolve(this.#grant(owner));
    }
    this.#waits++;
    const { promise, resolve, reject } = Promise.withResolvers<KernelSlot>();
    const waiter: QueuedWaiter = {
      owner,
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
    this.#failedToHibernate.clear();
    this.hibernateIdle();
    return promise;
  }

  /** The error for a caller that waited this long without success. */
  exhausted(waitMs: number): CellaError {
    const message = `All ${this.#most} kernels are busy, and none became free within ${waitMs / 1000} s.`;
    return new CellaError('POOL_EXHAUSTED', message, { details: { maxKernels: this.#most, waitMs } });
  }

  hibernateIdle(): void {
    while (this.#expected.size < this.#waiters.length) {
      const useful = (one: SlotOwner) => !this.#leaving.has(one) && !this.#failedToHibernate.has(one);
      const idle = [...this.#owners].filter((one) => one.idleSince !== undefined && useful(one));
      const longest = idle.toSorted((one, other) => (one.idleSince ?? 0) - (other.idleSince ?? 0))[0];
      if (!longest) return;
      void this.#hibernate(longest);
    }
  }

  /** Frees a slot by hibernating its owner. If that is slow or fails, hibernates another one. */
  async #hibernate(owner: SlotOwner): Promise<void> {
    this.#leaving.add(owner);
    this.#expected.add(owner);
    const timer = setTimeout(() => {
      this.#expected.delete(owner);
      this.hibernateIdle();
    }, SLOW_MS).unref();
    try {
      await owner.hibernate();
    } catch {
      // The kernel stays alive; the next call of its session gets the error.
      this.#failedToHibernate.add(owner);
    } finally {
      clearTimeout(timer);
      this.#leaving.delete(owner);
      this.#expected.delete(owner);
    }
    this.hibernateIdle();
  }

  #grant(owner: SlotOwner): KernelSlot {
    this.#owners.add(owner);
    let given = false;
    return {
      release: () => {
        if (given) return;
        given = true;
        this.#owners.delete(owner);
        const next = this.#owners.size < this.#most ? this.#waiters.shift() : undefined;
        next?.resolve(this.#grant(next.owner));
      },
    };
  }
}

/** A caller that gives up after some time. */
class WaitDeadline implements SlotWaiter {
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

interface WaitOptions {
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  /** The error of a caller that waited this long. */
  readonly exhausted: (waitMs: number) => CellaError;
}

export class SlotWaiters implements SlotWaiter {
  #state: 'coming' | 'queued' | 'placed' | 'left' = 'coming';
  #leave: (reason: CellaError) => void = () => {};
  /** Set if all callers gave up before it entered the queue: it must not wait there. */
  #cancelled: CellaError | undefined;
  /** Start the timeout of each caller: time before the queue does not count as waiting. */
  readonly #clocks = new Set<() => void>();
  #members = 0;

  queued(leave: (reason: CellaError) => void): void {
    this.#state = 'queued';
    this.#leave = leave;
    for (const start of this.#clocks) start();
    if (this.#cancelled) this.cancel(this.#cancelled);
  }

  placed(): void {
    this.#state = 'placed';
  }

  /** Whether it has left the queue: it gets no slot. */
  get left(): boolean {
    return this.#state === 'left';
  }

  /** Whether all callers have given up. */
  get isEmpty(): boolean {
    return this.#members === 0;
  }

  /** The result of the work, unless this caller gives up first. */
  async join<T>(work: Promise<T>, { waitMs, signal, exhausted }: WaitOptions): Promise<T> {
    const { promise: gaveUp, reject } = Promise.withResolvers<never>();
    let timer: NodeJS.Timeout | undefined;
    const start = () => {
      timer = setTimeout(() => this.#state === 'queued' && reject(exhausted(waitMs)), waitMs);
    };
    using _ = onAbort(signal, () =>
      reject(new CellaError('ABORTED', 'The caller’s signal was aborted while it waited for a kernel.')),
    );
    if (this.#state === 'queued') start();
    else this.#clocks.add(start);
    if (this.#members++ === 0) this.#cancelled = undefined;
    try {
      return await Promise.race([gaveUp, work]);
    } catch (error) {
      if (--this.#members === 0 && error instanceof CellaError) this.cancel(error);
      throw error;
    } finally {
      clearTimeout(timer);
      this.#clocks.delete(start);
    }
  }

  /** Leaves the queue for all callers. If it has a slot already, it keeps it. */
  cancel(reason: CellaError): void {
    this.#cancelled = reason;
    if (this.#state !== 'queued') return;
    this.#state = 'left';
    this.#leave(reason);
  }
}

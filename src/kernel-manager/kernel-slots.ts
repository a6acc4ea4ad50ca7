/** Limits how many kernels live at a time. A caller who finds no free slot hibernates the kernel that has been idle longest, or waits. */

import { onAbort } from '../lib/abort.ts';
import { CellaError } from '../protocol/errors.ts';

/** A kernel's place among those that may live. */
export interface KernelSlot {
  release(): void;
}

/** Whoever has a slot. */
export interface SlotHolder {
  /** Since when it has had nothing to do; undefined while it has. */
  readonly idleSince?: number | undefined;
  hibernate(): Promise<void>;
}

/** Whoever wants a slot: told where it stands, and may leave the queue. */
interface SlotWaiter {
  /** There is no room: it waits. `leave` takes it out of the queue. */
  queued(leave: (reason: CellaError) => void): void;
  /** It has its slot. */
  placed(): void;
}

export interface KernelSlots {
  take(holder: SlotHolder): Promise<KernelSlot>;
  /** Called when a holder has become idle: those who wait may need its place. */
  hibernateIdle(): void;
}

const ignore = () => {};

/** As many as anybody wants. */
export const unlimitedSlots: KernelSlots = { take: async () => ({ release: ignore }), hibernateIdle: ignore };

/** After this long, a kernel that is being put to sleep is not counted on any more: its code may keep it from being saved. */
const SLOW_MS = 1000;

interface QueuedWaiter {
  readonly holder: SlotHolder;
  readonly resolve: (slot: KernelSlot) => void;
}

export class LimitedKernelSlots implements KernelSlots {
  readonly #most: number;
  readonly #waitMs: number;
  readonly #holders = new Set<SlotHolder>();
  readonly #waiters: QueuedWaiter[] = [];
  /** Those that were asked to sleep, and those of them that are counted on. */
  readonly #leaving = new Set<SlotHolder>();
  readonly #expected = new Set<SlotHolder>();
  /** Those that could not be put to sleep: no use to those who wait by now. */
  readonly #failedToHibernate = new Set<SlotHolder>();
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

  take(
    holder: SlotHolder,
    queuer: SlotWaiter = new WaitDeadline(this.#waitMs, (waitMs) => this.exhausted(waitMs)),
  ): Promise<KernelSlot> {
    if (this.#holders.size < this.#most && this.#waiters.length === 0) {
      queuer.placed();
      return Promise.resolve(this.#grant(holder));
    }
    this.#waits++;
    const { promise, resolve, reject } = Promise.withResolvers<KernelSlot>();
    const waiter: QueuedWaiter = {
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
    this.#failedToHibernate.clear();
    this.hibernateIdle();
    return promise;
  }

  /** For one who has waited for so long in vain. */
  exhausted(waitMs: number): CellaError {
    const message = `All ${this.#most} kernels are at work, and none came free within ${waitMs / 1000} s.`;
    return new CellaError('POOL_EXHAUSTED', message, { details: { maxKernels: this.#most, waitMs } });
  }

  hibernateIdle(): void {
    while (this.#expected.size < this.#waiters.length) {
      const useful = (one: SlotHolder) => !this.#leaving.has(one) && !this.#failedToHibernate.has(one);
      const idle = [...this.#holders].filter((one) => one.idleSince !== undefined && useful(one));
      const longest = idle.toSorted((one, other) => (one.idleSince ?? 0) - (other.idleSince ?? 0))[0];
      if (!longest) return;
      void this.#hibernate(longest);
    }
  }

  /** It gives its slot when it sleeps. Where it is slow, or cannot sleep, another one is asked. */
  async #hibernate(holder: SlotHolder): Promise<void> {
    this.#leaving.add(holder);
    this.#expected.add(holder);
    const timer = setTimeout(() => {
      this.#expected.delete(holder);
      this.hibernateIdle();
    }, SLOW_MS).unref();
    try {
      await holder.hibernate();
    } catch {
      // Told to its own session by its next call; it stays as it is.
      this.#failedToHibernate.add(holder);
    } finally {
      clearTimeout(timer);
      this.#leaving.delete(holder);
      this.#expected.delete(holder);
    }
    this.hibernateIdle();
  }

  #grant(holder: SlotHolder): KernelSlot {
    this.#holders.add(holder);
    let given = false;
    return {
      release: () => {
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
  /** What is told to one who has waited for so long. */
  readonly exhausted: (waitMs: number) => CellaError;
}

export class AcquireGroup implements SlotWaiter {
  #state: 'coming' | 'queued' | 'placed' | 'left' = 'coming';
  #leave: (reason: CellaError) => void = () => {};
  /** Why it must not stand in the queue, where all gave up on the way there. */
  #cancelled: CellaError | undefined;
  /** Starts the clock of each: what comes before the queue is no waiting. */
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

  /** Whether it is out of the queue: nothing will come of it. */
  get left(): boolean {
    return this.#state === 'left';
  }

  /** Whether all have given up: nobody has, or will have, what comes of it. */
  get isEmpty(): boolean {
    return this.#members === 0;
  }

  /** What comes of the work, unless this one gives up first. */
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

  /** Out of the queue, whoever waits. What has its place keeps it. */
  cancel(reason: CellaError): void {
    this.#cancelled = reason;
    if (this.#state !== 'queued') return;
    this.#state = 'left';
    this.#leave(reason);
  }
}

/**
 * Those who ask for one kernel together: it stands in the queue once for all of them, each with a deadline and a signal of
 * its own, and it leaves the queue with the last who gives up.
 */

import { CellaError } from '../protocol/errors.ts';
import type { Queuer } from './slots.ts';

export interface Patience {
  readonly waitMs: number;
  readonly signal?: AbortSignal | undefined;
  /** What is told to one who has waited for so long. */
  readonly exhausted: (waitMs: number) => CellaError;
}

export class Party implements Queuer {
  #state: 'coming' | 'queued' | 'placed' | 'left' = 'coming';
  #leave: (reason: CellaError) => void = () => {};
  /** Why it must not stand in the queue, where all gave up on the way there. */
  #disbanded: CellaError | undefined;
  /** Starts the clock of each: what comes before the queue is no waiting. */
  readonly #clocks = new Set<() => void>();
  #members = 0;

  queued(leave: (reason: CellaError) => void): void {
    this.#state = 'queued';
    this.#leave = leave;
    for (const start of this.#clocks) start();
    if (this.#disbanded) this.disband(this.#disbanded);
  }

  placed(): void {
    this.#state = 'placed';
  }

  /** Whether it is out of the queue: nothing will come of it. */
  get left(): boolean {
    return this.#state === 'left';
  }

  /** Whether all have given up: nobody has, or will have, what comes of it. */
  get deserted(): boolean {
    return this.#members === 0;
  }

  /** What comes of the work, unless this one gives up first. */
  async join<T>(work: Promise<T>, { waitMs, signal, exhausted }: Patience): Promise<T> {
    const { promise: gaveUp, reject } = Promise.withResolvers<never>();
    const abort = () =>
      reject(new CellaError('ABORTED', 'The caller’s signal was aborted while it waited for a kernel.'));
    let timer: NodeJS.Timeout | undefined;
    const start = () => {
      timer = setTimeout(() => this.#state === 'queued' && reject(exhausted(waitMs)), waitMs);
    };
    signal?.addEventListener('abort', abort, { once: true });
    if (this.#state === 'queued') start();
    else this.#clocks.add(start);
    if (this.#members++ === 0) this.#disbanded = undefined;
    try {
      return await Promise.race([gaveUp, work]);
    } catch (error) {
      if (--this.#members === 0 && error instanceof CellaError) this.disband(error);
      throw error;
    } finally {
      clearTimeout(timer);
      this.#clocks.delete(start);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Out of the queue, whoever waits. What has its place keeps it. */
  disband(reason: CellaError): void {
    this.#disbanded = reason;
    if (this.#state !== 'queued') return;
    this.#state = 'left';
    this.#leave(reason);
  }
}

/** Runs an installation once for all callers that wait for it, and stops it when none waits. */

import { onAbort } from '../../lib/abort.ts';
import { CellaError } from '../../protocol/errors.ts';

export interface InstallWaiter {
  readonly signal?: AbortSignal | undefined;
  progress?(text: string): void;
}

/** What the work gets from all callers that wait. */
export interface PackageProgress {
  readonly signal: AbortSignal;
  progress(text: string): void;
}

interface SharedRun<T> {
  readonly promise: Promise<T>;
  readonly waiters: Set<InstallWaiter>;
  readonly stop: AbortController;
}

export class SharedInstalls<T> {
  readonly #running = new Map<string, SharedRun<T>>();

  async run(key: string, waiter: InstallWaiter, work: (all: PackageProgress) => Promise<T>): Promise<T> {
    if (waiter.signal?.aborted) throw installAborted();
    const running = this.#running.get(key) ?? this.#start(key, work);
    running.waiters.add(waiter);
    const { promise: gaveUp, reject } = Promise.withResolvers<never>();
    using _ = onAbort(waiter.signal, () => {
      running.waiters.delete(waiter);
      if (running.waiters.size > 0) return reject(installAborted());
      this.#forget(key, running);
      running.stop.abort();
    });
    try {
      return await Promise.race([running.promise, gaveUp]);
    } finally {
      running.waiters.delete(waiter);
    }
  }

  /** Resolves when all installations have stopped. */
  async stop(): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort();
    await Promise.allSettled(all.map(({ promise }) => promise));
  }

  #start(key: string, work: (all: PackageProgress) => Promise<T>): SharedRun<T> {
    const waiters = new Set<InstallWaiter>();
    const stop = new AbortController();
    const progress = (text: string) => {
      for (const waiter of waiters) waiter.progress?.(text);
    };
    const promise = work({ signal: stop.signal, progress }).finally(() => this.#forget(key, running));
    const running: SharedRun<T> = { promise, waiters, stop };
    this.#running.set(key, running);
    return running;
  }

  #forget(key: string, running: SharedRun<T>): void {
    if (this.#running.get(key) === running) this.#running.delete(key);
  }
}

export function installAborted(): CellaError {
  return new CellaError('ABORTED', 'The installation was stopped; existing packages are unchanged.');
}

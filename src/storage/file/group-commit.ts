/**
 * Waiting for the disk. One fsync serves all who asked before it began, off the main thread; one who asks alone, of a disk
 * that is quick, is served on it: another thread would take longer to be asked.
 */

export interface Disk {
  /** Does not return before everything is on it. */
  flush(): void;
  /** The same from another thread. */
  flushElsewhere(): Promise<void>;
}

/** Calls within this time share one flush. */
const OFTEN_MS = 1;
/** A disk that took longer than this is not waited for on the main thread, for a while. */
const QUICK_MS = 0.5;
const WARY_MS = 10_000;

export class GroupCommit {
  readonly #disk: Disk;
  readonly #clock: () => number;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #flushing = false;
  #lastAsked = Number.NEGATIVE_INFINITY;
  #waryUntil = Number.NEGATIVE_INFINITY;

  /** `clock`: milliseconds that never go back. */
  constructor(disk: Disk, clock: () => number = () => performance.now()) {
    this.#disk = disk;
    this.#clock = clock;
  }

  /** Resolves after a flush that began after this call. */
  flushed(): Promise<void> {
    const asked = this.#clock();
    const alone = asked - this.#lastAsked > OFTEN_MS && !this.#flushing && this.#next === undefined;
    this.#lastAsked = asked;
    if (alone && asked > this.#waryUntil) return this.#here(asked);
    this.#next ??= this.#after(this.#running);
    return this.#next;
  }

  async #here(began: number): Promise<void> {
    try {
      this.#disk.flush();
    } finally {
      const ended = this.#clock();
      if (ended - began > QUICK_MS) this.#waryUntil = ended + WARY_MS;
    }
  }

  async #after(running: Promise<void>): Promise<void> {
    // Those who waited for the failed flush got its error.
    await running.catch(() => {});
    this.#next = undefined;
    this.#flushing = true;
    this.#running = this.#disk.flushElsewhere().finally(() => {
      this.#flushing = false;
    });
    await this.#running;
  }
}

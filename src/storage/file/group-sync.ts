/** Waiting for the disk in groups: one fsync serves all who asked before it began, off the main thread. */

export class GroupSync {
  readonly #flush: () => Promise<void>;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(flush: () => Promise<void>) {
    this.#flush = flush;
  }

  /** Resolves after a flush that began after this call. */
  reached(): Promise<void> {
    this.#next ??= this.#after(this.#running);
    return this.#next;
  }

  async #after(running: Promise<void>): Promise<void> {
    // What failed before was told to those who waited for it.
    await running.catch(() => {});
    this.#next = undefined;
    this.#running = this.#flush();
    await this.#running;
  }
}

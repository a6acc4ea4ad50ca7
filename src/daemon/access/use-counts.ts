/** How often something was used, written down soon after: nobody who uses it waits for that. */

/** Adds to what is kept, where it is still there. */
type Write = (id: string, uses: number) => Promise<void>;

export class UseCounts {
  readonly #write: Write;
  readonly #waiting = new Map<string, number>();
  readonly #writing = new Map<string, Promise<void>>();

  constructor(write: Write) {
    this.#write = write;
  }

  add(id: string): void {
    this.#waiting.set(id, this.waiting(id) + 1);
    if (!this.#writing.has(id)) this.#writing.set(id, this.#drain(id));
  }

  /** Uses that are not written yet. */
  waiting(id: string): number {
    return this.#waiting.get(id) ?? 0;
  }

  async flush(): Promise<void> {
    await Promise.all(this.#writing.values());
  }

  /** What comes while one write runs goes into the next. */
  async #drain(id: string): Promise<void> {
    await Promise.resolve();
    for (let uses = this.waiting(id); uses > 0; uses = this.waiting(id)) {
      this.#waiting.delete(id);
      await this.#write(id, uses).catch(() => {}); // a count is worth no failed call
    }
    this.#writing.delete(id);
  }
}

/** How often something was used, written down a moment later: nobody who uses it waits for that. */

/** Adds to what is kept, where it is still there. */
type Write = (id: string, uses: number) => Promise<void>;

/** What comes meanwhile goes into the same write. */
const GATHER_MS = 1000;

export class UseCounts {
  readonly #write: Write;
  #waiting = new Map<string, number>();
  #writing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  add(id: string): void {
    this.#waiting.set(id, (this.#waiting.get(id) ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS).unref();
  }

  /** Resolves when all is written that was counted before. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const counted = this.#waiting;
    this.#waiting = new Map();
    this.#writing = this.#writing.then(async () => {
      for (const [id, uses] of counted) await this.#write(id, uses).catch(() => {}); // a count is worth no failed call
    });
    return this.#writing;
  }
}

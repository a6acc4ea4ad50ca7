/** A queue of events between a kernel and one reader: it says when it is full, and tells when there is room again. */

const HIGH_WATER = 1024 * 1024;
/** Past this, a reader that does not read while code must be stopped misses events. */
const HARD_LIMIT = 8 * 1024 * 1024;

export class EventQueue<T> implements AsyncIterable<T> {
  readonly #onRoom: () => void;
  readonly #onUnread: (items: readonly T[]) => void;
  #items: { item: T; size: number }[] = [];
  #size = 0;
  #lost = 0;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;
  #abandoned = false;
  #draining = false;

  /** `onUnread` is told what a reader had not read when it left. */
  constructor(onRoom: () => void = () => {}, onUnread: (items: readonly T[]) => void = () => {}) {
    this.#onRoom = onRoom;
    this.#onUnread = onUnread;
  }

  /** `size` is about what the event takes in memory. Returns whether there is room for more. */
  push(item: T, size: number): boolean {
    if (this.#abandoned || this.#ended) return true;
    if (this.#draining && this.#size + size > HARD_LIMIT) {
      this.#lost += size;
      return true;
    }
    this.#items.push({ item, size });
    this.#size += size;
    this.#wake?.();
    return this.#draining || this.#size < HIGH_WATER;
  }

  /** The last event: there is always room for it. */
  end(item?: T): void {
    if (this.#ended) return;
    if (item !== undefined && !this.#abandoned) this.#items.push({ item, size: 0 });
    this.#ended = true;
    this.#wake?.();
  }

  /** Ends with an error instead of a last event. */
  fail(error: Error): void {
    this.#failure = error;
    this.end();
  }

  /** From here on the writer must not be held up: what has no room is lost, and counted. */
  drain(): void {
    this.#draining = true;
    this.#onRoom();
  }

  /** Whether the reader has left: nobody will see what comes. */
  get abandoned(): boolean {
    return this.#abandoned;
  }

  /** Bytes that the reader missed. */
  get lost(): number {
    return this.#lost;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      while (true) {
        const next = this.#items.shift();
        if (next) {
          const wasFull = this.#size >= HIGH_WATER;
          this.#size -= next.size;
          if (wasFull && this.#size < HIGH_WATER) this.#onRoom();
          yield next.item;
        } else if (this.#ended) {
          if (this.#failure) throw this.#failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
          this.#wake = undefined;
        }
      }
    } finally {
      const unread = this.#items.map(({ item }) => item);
      this.#abandoned = true;
      this.#items = [];
      this.#size = 0;
      this.#onUnread(unread);
      this.#onRoom();
    }
  }
}

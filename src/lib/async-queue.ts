/** A queue between one side that pushes and one reader, who waits for the next item. */

import { FifoQueue } from './fifo-queue.ts';

interface QueuedItem<T> {
  readonly item: T;
  readonly size: number;
}

interface AsyncQueueOptions {
  /** The total size above which the oldest items are dropped. The newest always stays. */
  readonly dropAbove?: number;
}

export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #dropAbove: number;
  readonly #items = new FifoQueue<QueuedItem<T>>();
  #size = 0;
  #ended = false;
  #error: Error | undefined;
  #wake: () => void = () => {};

  constructor({ dropAbove = Number.POSITIVE_INFINITY }: AsyncQueueOptions = {}) {
    this.#dropAbove = dropAbove;
  }

  /** Of all items that wait. */
  get size(): number {
    return this.#size;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Does nothing after `end`. */
  push(item: T, size = 1): void {
    if (this.#ended) return;
    this.#items.push({ item, size });
    this.#size += size;
    while (this.#size > this.#dropAbove && this.#size > size) this.#take();
    this.#wake();
  }

  /** The reader still gets what waits, and then the first error that was given. May be called again. */
  end(error?: Error): void {
    this.#error ??= error;
    this.#ended = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const next = this.#take();
      if (next) yield next.item;
      else if (this.#error) throw this.#error;
      else if (this.#ended) return;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #take(): QueuedItem<T> | undefined {
    const { first } = this.#items;
    if (!first) return undefined;
    this.#items.shift();
    this.#size -= first.size;
    return first;
  }
}

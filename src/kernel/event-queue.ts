/** How the events of an execution reach their one reader: through a callback, or through a queue with backpressure. */

import { FifoQueue } from '../lib/queues.ts';
import { KernelBudget } from './kernel-budget.ts';

/** The side that pushes events. */
export interface EventWriter<T> {
  /** Counts unread events until the last event. Default: a budget for this sink alone. */
  readonly budget?: KernelBudget;
  /** Called when a slow reader has made room. */
  readonly onRoom: () => void;
  /** Called with the unread events when the reader stops. */
  readonly onUnread?: (items: readonly T[]) => void;
}

/** Where a kernel's events go. */
export interface EventSink<T> {
  /** `size` is roughly the event's memory use. Returns whether there is room for more. */
  push(item: T, size: number): boolean;
  /** Like `push`, for events that a slow reader may miss: drops the event if there is no room. */
  offer(item: T, size: number): void;
  /** Call it before the first event. */
  attach(writer: EventWriter<T>): void;
  /** Adds the last event. There is always room for it. */
  end(item?: T): void;
  /** Ends with an error instead of a last event. */
  fail(error: Error): void;
  /** From now on the writer must not wait: events without room are dropped and counted. */
  dropWhenFull(): void;
  /** Bytes that the reader missed. */
  readonly lost: number;
  /** Whether the reader has stopped reading. */
  readonly abandoned: boolean;
}

/** Passes each event to a function as it arrives; there is always room. */
export class CallbackEventSink<T> implements EventSink<T> {
  readonly #listen: (item: T) => void;
  readonly lost = 0;
  readonly abandoned = false;

  constructor(listen: (item: T) => void) {
    this.#listen = listen;
  }

  push(item: T): boolean {
    this.#listen(item);
    return true;
  }

  offer(item: T): void {
    this.#listen(item);
  }

  attach(): void {}

  end(item?: T): void {
    if (item !== undefined) this.#listen(item);
  }

  /** Reported in the execution's result. */
  fail(): void {}

  dropWhenFull(): void {}
}

export class EventQueue<T> implements EventSink<T>, AsyncIterable<T> {
  readonly #items = new FifoQueue<{ readonly item: T; readonly size: number }>();
  #writer: EventWriter<T> = { onRoom: () => {} };
  #budget = new KernelBudget();
  #size = 0;
  #lost = 0;
  #wake: (() => void) | undefined;
  #ended = false;
  #failure: Error | undefined;
  #abandoned = false;
  #draining = false;

  push(item: T, size: number): boolean {
    if (this.#abandoned || this.#ended) return true;
    if (this.#draining && !this.#budget.hasRoom('unread', size)) {
      this.#lost += size;
      return true;
    }
    this.#items.push({ item, size });
    this.#size += size;
    this.#budget.take('unread', size);
    this.#wake?.();
    return this.#budget.readerHasRoom;
  }

  offer(item: T, size: number): void {
    if (this.#budget.readerHasRoom) this.push(item, size);
    else this.#lost += size;
  }

  attach(writer: EventWriter<T>): void {
    this.#writer = writer;
    this.#budget = writer.budget ?? this.#budget;
  }

  end(item?: T): void {
    if (this.#ended) return;
    if (item !== undefined && !this.#abandoned) this.#items.push({ item, size: 0 });
    this.#uncount(this.#size);
    this.#ended = true;
    this.#wake?.();
  }

  fail(error: Error): void {
    this.#failure = error;
    this.end();
  }

  dropWhenFull(): void {
    this.#draining = true;
    this.#budget.waitForReader(false);
    this.#writer.onRoom();
  }

  get abandoned(): boolean {
    return this.#abandoned;
  }

  get lost(): number {
    return this.#lost;
  }

  /** Events that are unread after the last event belong to the reader. */
  #uncount(size: number): void {
    if (this.#ended) return;
    this.#size -= size;
    this.#budget.give('unread', size);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    try {
      while (true) {
        const next = this.#items.first;
        if (next) {
          this.#items.shift();
          const wasFull = !this.#budget.readerHasRoom;
          this.#uncount(next.size);
          if (wasFull && this.#budget.readerHasRoom) this.#writer.onRoom();
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
      const unread = this.#items.toArray().map(({ item }) => item);
      this.#abandoned = true;
      this.#items.clear();
      this.#uncount(this.#size);
      this.#writer.onUnread?.(unread);
      this.#writer.onRoom();
    }
  }
}

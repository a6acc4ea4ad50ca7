/** Queues: of items for one reader, and of work with limited concurrency. They work in browsers, too. */

import { onAbort } from './abort.ts';

const FEW = 1024;

/** First in, first out. Unlike Array.shift, taking an item costs the same however long the queue is. */
export class FifoQueue<T> {
  #items: (T | undefined)[] = [];
  #taken = 0;

  get first(): T | undefined {
    return this.#items[this.#taken];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes the first item. */
  shift(): void {
    this.#items[this.#taken++] = undefined;
    if (this.#taken < FEW || this.#taken * 2 < this.#items.length) return;
    this.#items = this.#items.slice(this.#taken);
    this.#taken = 0;
  }

  clear(): void {
    this.#items = [];
    this.#taken = 0;
  }

  /** The items that wait. */
  toArray(): T[] {
    return this.#items.slice(this.#taken) as T[];
  }
}

interface QueuedItem<T> {
  readonly item: T;
  readonly size: number;
}

interface AsyncQueueOptions {
  /** The total size above which the oldest items are dropped. The newest always stays. */
  readonly dropAbove?: number;
}

/** One side pushes items, one reader waits for the next. */
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

  /** The total size of all waiting items. */
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

  /** The reader still gets the waiting items, then the first error given. May be called again. */
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

/** Runs one piece of work at a time, in the order it came. Work starts synchronously if nothing else runs. */
export class SerialQueue {
  readonly #urgent: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];
  #taken = 0;

  /** Whether nothing runs or waits. */
  get free(): boolean {
    return this.#taken === 0;
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#waiting, work);
  }

  /** Runs after the current work and before all waiting work. */
  runNext<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(this.#urgent, work);
  }

  /** Resolves when all work queued so far has ended. */
  async idle(): Promise<void> {
    if (!this.free) await this.run(async () => {});
  }

  #enter<T>(queue: (() => void)[], work: () => Promise<T>): Promise<T> {
    if (this.#taken++ === 0) return this.#begin(work);
    const { promise, resolve } = Promise.withResolvers<T>();
    queue.push(() => resolve(this.#begin(work)));
    return promise;
  }

  #begin<T>(work: () => Promise<T>): Promise<T> {
    const turn = work();
    const done = () => {
      this.#taken--;
      const next = this.#urgent.shift() ?? this.#waiting.shift();
      if (next) queueMicrotask(next);
    };
    turn.then(done, done);
    return turn;
  }
}

/** A serial queue for each key. Idle keys take no memory. */
export class KeyedSerialQueue<Key> {
  readonly #queues = new Map<Key, SerialQueue>();

  async run<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const queue = this.#queues.get(key) ?? new SerialQueue();
    this.#queues.set(key, queue);
    try {
      return await queue.run(work);
    } finally {
      if (queue.free && this.#queues.get(key) === queue) this.#queues.delete(key);
    }
  }
}

interface SemaphoreWaiter {
  readonly weight: number;
  start(hasRoom: boolean): void;
}

interface TakeOptions {
  /** Default: 1. More than there is in all counts as all. */
  readonly weight?: number;
  readonly signal?: AbortSignal | undefined;
}

export class Semaphore {
  readonly #total: number;
  #free: number;
  /** In order of arrival. */
  readonly #waiting = new Set<SemaphoreWaiter>();

  constructor(total: number) {
    this.#total = total;
    this.#free = total;
  }

  /** Whether new work must wait. */
  get full(): boolean {
    return this.#free === 0 || this.#waiting.size > 0;
  }

  /** How much work waits. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** If the signal is aborted while the work waits, it starts without a slot and reports the abort itself. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const taken = await this.take({ signal });
    try {
      return await work();
    } finally {
      taken[Symbol.dispose]();
    }
  }

  /**
   * Resolves when it is this caller's turn and there is room. Disposing the result, also repeatedly, gives the room back. If
   * the signal is aborted before, it resolves without room.
   */
  async take({ weight = 1, signal }: TakeOptions = {}): Promise<Disposable> {
    let held = Math.min(weight, this.#total);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter: SemaphoreWaiter = { weight: held, start: resolve };
    this.#waiting.add(waiter);
    this.#startWaiting();
    using _ = onAbort(signal, () => {
      if (!this.#waiting.delete(waiter)) return;
      resolve(false);
      this.#startWaiting();
    });
    if (!(await promise)) held = 0;
    return {
      [Symbol.dispose]: () => {
        this.#free += held;
        held = 0;
        this.#startWaiting();
      },
    };
  }

  /** Light work does not overtake heavy work, which would otherwise wait for ever. */
  #startWaiting(): void {
    for (const waiter of this.#waiting) {
      if (waiter.weight > this.#free) return;
      this.#waiting.delete(waiter);
      this.#free -= waiter.weight;
      waiter.start(true);
    }
  }
}

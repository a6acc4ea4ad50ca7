/** Enclosures that are ready before anybody asks for one: closed in, with a kernel that has said hello. */

import type { EnvironmentSpec } from '../sandbox/spec.ts';
import type { Enclosure, Spare, SpareOrder, SpareRack } from './contract.ts';
import { Processor } from './processor.ts';

const REFILL_AFTER_MS = 25;

/** One whose first kernel can be started ahead of time. */
export interface Preparable extends Enclosure {
  /** Starts it, and waits until it has said hello. */
  prepare(): Promise<void>;
  /** Has the kernel that was prepared wake up, on another processor than this, if it can; -1 for any. */
  wake(processor: number): void;
}

/** Where spares are made; one that has ended makes no more. */
export interface Workshop {
  readonly alive: boolean;
  make(spec: EnvironmentSpec): Preparable | Promise<Preparable>;
}

interface Ready {
  readonly enclosure: Preparable;
  readonly spec: EnvironmentSpec;
}

interface Stock {
  order: SpareOrder;
  readonly ready: Ready[];
  filling: Promise<void> | undefined;
  refill: NodeJS.Timeout | undefined;
}

export class Spares implements SpareRack {
  readonly #live: () => Promise<Workshop>;
  readonly #stocks = new Map<string, Stock>();
  readonly #processor = new Processor();
  #closed = false;

  constructor(live: () => Promise<Workshop>) {
    this.#live = live;
  }

  count(shape: string): number {
    return this.#stocks.get(shape)?.ready.length ?? 0;
  }

  /** The next one of each shape: waking up takes a process as long as the host takes to find out which it needs. */
  wake(): void {
    for (const { ready } of this.#stocks.values()) ready[0]?.enclosure.wake(this.#processor.number);
  }

  take(shape: string): Spare | undefined {
    const stock = this.#stocks.get(shape);
    for (let next = stock?.ready.shift(); stock && next; next = stock.ready.shift()) {
      this.#fillSoon(stock);
      if (next.enclosure.alive) return next;
      stock.order.discard(next.spec);
    }
    return undefined;
  }

  keep(order: SpareOrder): void {
    const known = this.#stocks.get(order.shape);
    if (known && known.order.count >= order.count) return;
    const stock = known ?? { order, ready: [], filling: undefined, refill: undefined };
    stock.order = order;
    this.#stocks.set(order.shape, stock);
    this.#fillSoon(stock);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const stocks = [...this.#stocks.values()];
    this.#stocks.clear();
    this.#processor.close();
    await Promise.all(stocks.map((stock) => empty(stock)));
  }

  /** A little later, so that making the next spare does not slow down whoever took this one. */
  #fillSoon(stock: Stock): void {
    clearTimeout(stock.refill);
    // One that cannot be made is no loss to whoever took the last.
    stock.refill = setTimeout(() => this.#fill(stock).catch(() => {}), REFILL_AFTER_MS).unref();
  }

  #fill(stock: Stock): Promise<void> {
    stock.filling ??= this.#prepare(stock).finally(() => {
      stock.filling = undefined;
    });
    return stock.filling;
  }

  async #prepare(stock: Stock): Promise<void> {
    const workshop = await this.#live();
    while (!this.#closed && stock.ready.length < stock.order.count && workshop.alive) {
      const spec = stock.order.make();
      stock.ready.push({ enclosure: await prepared(workshop, stock.order, spec), spec });
    }
  }
}

async function prepared(workshop: Workshop, order: SpareOrder, spec: EnvironmentSpec): Promise<Preparable> {
  let enclosure: Preparable | undefined;
  try {
    enclosure = await workshop.make(spec);
    await enclosure.prepare();
    return enclosure;
  } catch (error) {
    await enclosure?.close();
    order.discard(spec);
    throw error;
  }
}

async function empty(stock: Stock): Promise<void> {
  clearTimeout(stock.refill);
  await stock.filling?.catch(() => {}); // whoever asked for spares was told
  for (const { enclosure, spec } of stock.ready.splice(0)) {
    await enclosure.close();
    stock.order.discard(spec);
  }
}

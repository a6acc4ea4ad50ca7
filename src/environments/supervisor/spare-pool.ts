/** Kernel hosts that are started in advance, each with a kernel that has said hello. */

import { closeSync, openSync, readSync } from 'node:fs';
import { parseProcessStat } from '../../lib/process-identity.ts';
import type { EnvironmentSpec } from '../../protocol/environment-spec.ts';
import type { KernelHost, Spare, SpareSpec } from '../kernel-host.ts';

const REFILL_AFTER_MS = 25;

/** A host whose first kernel can be started in advance. */
export interface PrestartableHost extends KernelHost {
  /** Starts the first kernel and waits for its hello. */
  prestart(): Promise<void>;
  /** Wakes the kernel that was started in advance, if possible on another processor than this one; -1 for any. */
  wake(processor: number): void;
}

/** Creates spares, unless it has ended. */
export interface SpareFactory {
  readonly alive: boolean;
  make(spec: EnvironmentSpec): PrestartableHost | Promise<PrestartableHost>;
}

interface ReadySpare {
  readonly host: PrestartableHost;
  readonly spec: EnvironmentSpec;
}

interface SpareStock {
  wanted: SpareSpec;
  readonly ready: ReadySpare[];
  filling: Promise<void> | undefined;
  refill: NodeJS.Timeout | undefined;
}

export class SparePool {
  readonly #live: () => Promise<SpareFactory>;
  readonly #stocks = new Map<string, SpareStock>();
  readonly #processor = new CurrentProcessor();
  #closed = false;

  constructor(live: () => Promise<SpareFactory>) {
    this.#live = live;
  }

  /** The number of ready spares with that key. */
  count(specKey: string): number {
    return this.#stocks.get(specKey)?.ready.length ?? 0;
  }

  /**
   * Wakes the next spare of each key, because waking takes a process as long as the host needs to find out which spare it
   * needs.
   */
  wake(): void {
    for (const { ready } of this.#stocks.values()) ready[0]?.host.wake(this.#processor.number);
  }

  /** Takes a host with that key and a started kernel, if there is one. */
  take(specKey: string): Spare | undefined {
    const stock = this.#stocks.get(specKey);
    for (let next = stock?.ready.shift(); stock && next; next = stock.ready.shift()) {
      this.#fillSoon(stock);
      if (next.host.alive) return next;
      stock.wanted.discard(next.spec);
    }
    return undefined;
  }

  /** Fills the stock in the background. Failures are ignored: the next `open` reports the reason. */
  keep(wanted: SpareSpec): void {
    const known = this.#stocks.get(wanted.specKey);
    if (known && known.wanted.count >= wanted.count) return;
    const stock = known ?? { wanted, ready: [], filling: undefined, refill: undefined };
    stock.wanted = wanted;
    this.#stocks.set(wanted.specKey, stock);
    this.#fillSoon(stock);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const stocks = [...this.#stocks.values()];
    this.#stocks.clear();
    this.#processor.close();
    await Promise.all(stocks.map((stock) => discardAll(stock)));
  }

  /** Waits a little, so that starting the next spare does not slow down the session that took this one. */
  #fillSoon(stock: SpareStock): void {
    clearTimeout(stock.refill);
    // A failure here does not concern the session that took the last spare.
    stock.refill = setTimeout(() => this.#fill(stock).catch(() => {}), REFILL_AFTER_MS).unref();
  }

  #fill(stock: SpareStock): Promise<void> {
    stock.filling ??= this.#prepare(stock).finally(() => {
      stock.filling = undefined;
    });
    return stock.filling;
  }

  async #prepare(stock: SpareStock): Promise<void> {
    const factory = await this.#live();
    while (!this.#closed && stock.ready.length < stock.wanted.count && factory.alive) {
      const spec = stock.wanted.make();
      stock.ready.push({ host: await makeSpare(factory, stock.wanted, spec), spec });
    }
  }
}

async function makeSpare(factory: SpareFactory, wanted: SpareSpec, spec: EnvironmentSpec): Promise<PrestartableHost> {
  let host: PrestartableHost | undefined;
  try {
    host = await factory.make(spec);
    await host.prestart();
    return host;
  } catch (error) {
    await host?.close();
    wanted.discard(spec);
    throw error;
  }
}

async function discardAll(stock: SpareStock): Promise<void> {
  clearTimeout(stock.refill);
  await stock.filling?.catch(() => {}); // its caller got the error
  for (const { host, spec } of stock.ready.splice(0)) {
    await host.close();
    stock.wanted.discard(spec);
  }
}

/** More than a line of /proc/<pid>/stat. */
const LINE_BYTES = 1024;

export class CurrentProcessor {
  readonly #line = Buffer.allocUnsafe(LINE_BYTES);
  /** Kept open, because opening the file takes longer than reading it. */
  #file: number | undefined;

  /** -1 if the system does not report it. */
  get number(): number {
    try {
      this.#file ??= openSync('/proc/thread-self/stat', 'r');
      const length = readSync(this.#file, this.#line, 0, LINE_BYTES, 0);
      return parseProcessStat(this.#line.toString('latin1', 0, length))?.processor ?? -1;
    } catch {
      // Not Linux, or no /proc: spares then wake up on any processor.
      return -1;
    }
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

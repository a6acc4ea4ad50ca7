/** Shared resources by key. Each is closed some time after its last user releases it. */

import { IdleTimeout } from './deadline.ts';

interface RefCountedOptions<T> {
  /** How long a resource without users stays open. */
  readonly idleMs: number;
  /** How many resources may stay open. Beyond that, the resource that has been unused longest is closed. */
  readonly maxOpen?: number;
  /** Errors are ignored, except by `closeAll`. */
  readonly close: (resource: T) => Promise<void>;
}

interface CountedEntry<T> {
  readonly resource: T;
  readonly idle: IdleTimeout;
  users: number;
  closed: boolean;
}

export interface Acquired<T> {
  readonly resource: T;
  /** Whether `closeAll` closed the resource while it was in use. */
  readonly closed: boolean;
  /** May be called again. */
  release(): void;
}

export class RefCounted<T> {
  readonly #options: RefCountedOptions<T>;
  /** Least recently used first. */
  readonly #entries = new Map<string, CountedEntry<T>>();

  constructor(options: RefCountedOptions<T>) {
    this.#options = options;
  }

  acquire(key: string, open: () => T): Acquired<T> {
    const entry = this.#entries.get(key) ?? this.#newEntry(key, open());
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    entry.idle.stop();
    entry.users++;
    let held = true;
    return {
      resource: entry.resource,
      get closed() {
        return entry.closed;
      },
      release: () => {
        if (!held) return;
        held = false;
        entry.users--;
        if (entry.users === 0 && this.#entries.get(key) === entry) this.#becomeIdle(entry);
      },
    };
  }

  /** All that are open. */
  resources(): T[] {
    return [...this.#entries.values()].map(({ resource }) => resource);
  }

  /** The next caller opens the resource anew. For resources that failed to open. */
  forget(key: string, resource: T): void {
    if (this.#entries.get(key)?.resource === resource) this.#entries.delete(key);
  }

  /** Closes all resources, even those in use. */
  async closeAll(): Promise<void> {
    const all = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all(all.map((entry) => this.#close(entry)));
  }

  #newEntry(key: string, resource: T): CountedEntry<T> {
    const idle = new IdleTimeout(this.#options.idleMs, () => this.#remove(key));
    return { resource, idle, users: 0, closed: false };
  }

  #becomeIdle(entry: CountedEntry<T>): void {
    entry.idle.restart();
    if (this.#entries.size <= (this.#options.maxOpen ?? Number.POSITIVE_INFINITY)) return;
    const [oldest] = [...this.#entries].find(([, { users }]) => users === 0) ?? [];
    if (oldest !== undefined) this.#remove(oldest);
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    if (entry) this.#close(entry).catch(() => {}); // the resource has no users
  }

  async #close(entry: CountedEntry<T>): Promise<void> {
    entry.idle.stop();
    entry.closed = true;
    await this.#options.close(entry.resource);
  }
}

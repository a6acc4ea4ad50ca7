/** What has happened and was not told yet: each path once, and so many at most. Past that it is only known that much has. */

import type { How } from './folder-watches.ts';

const MOST_PATHS = 1000;
/** Code that writes to one file without end must not keep the server busy. */
const MOST_EVENTS = 8192;

export class Changes {
  #paths = new Map<string, How>();
  #events = 0;
  #lost = false;
  #news = Promise.withResolvers<void>();

  happened(path: string, how: How): void {
    if (this.#lost) return;
    this.#events++;
    if (this.#paths.get(path) !== 'name') this.#paths.set(path, how);
    if (this.#events > MOST_EVENTS || this.#paths.size > MOST_PATHS) this.lost();
    this.#news.resolve();
  }

  lost(): void {
    this.#lost = true;
    this.#paths.clear();
    this.#news.resolve();
  }

  /** Resolves when there is something to take. */
  get news(): Promise<void> {
    return this.#news.promise;
  }

  take(): ReadonlyMap<string, How> | 'lost' {
    const taken = this.#lost ? 'lost' : this.#paths;
    this.#paths = new Map();
    this.#events = 0;
    this.#lost = false;
    this.#news = Promise.withResolvers();
    return taken;
  }
}

/** What documents were parsed to, by their revision: one that has not changed since is not checked again. */

import { Latest } from './latest.ts';

interface Parsed<T> {
  readonly revision: number;
  readonly value: T;
}

const MOST = 1000;

export class ParseCache<T> {
  readonly #parsed = new Latest<string, Parsed<T>>(MOST);

  /** What `parse` gives is shared by all who ask, and not to be changed. */
  get(id: string, revision: number, parse: () => T): T {
    const known = this.#parsed.get(id);
    const value = known?.revision === revision ? known.value : parse();
    // Also where it was known: what is used stays.
    this.#parsed.set(id, { revision, value });
    return value;
  }
}

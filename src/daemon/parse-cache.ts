/** What documents were parsed to, by their revision: one that has not changed since is not checked again. */

interface Parsed<T> {
  readonly revision: number;
  readonly value: T;
}

const MOST = 1000;

export class ParseCache<T> {
  /** The one that was used least recently comes first. */
  readonly #parsed = new Map<string, Parsed<T>>();

  /** What `parse` gives is shared by all who ask, and not to be changed. */
  get(id: string, revision: number, parse: () => T): T {
    const known = this.#parsed.get(id);
    const value = known?.revision === revision ? known.value : parse();
    this.#parsed.delete(id);
    this.#parsed.set(id, { revision, value });
    const [oldest] = this.#parsed.size > MOST ? this.#parsed.keys() : [];
    if (oldest !== undefined) this.#parsed.delete(oldest);
    return value;
  }
}

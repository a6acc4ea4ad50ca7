/** Texts of one's own in front of those of another: the others are read where one has none of that name, and never changed. */

import { sortedInSlices } from '../lib/event-loop.ts';
import type { StoredText, TextStore } from './contract.ts';

export class LayeredTexts implements TextStore {
  readonly #own: TextStore;
  readonly #shared: TextStore;

  constructor(own: TextStore, shared: TextStore) {
    this.#own = own;
    this.#shared = shared;
  }

  async list(): Promise<StoredText[]> {
    const [own, others] = await Promise.all([this.#own.list(), this.#shared.list()]);
    const taken = new Set(own.map(({ name }) => name));
    const shared = others.filter(({ name }) => !taken.has(name)).map(toShared);
    return await sortedInSlices([...own, ...shared], (one, other) => (one.name < other.name ? -1 : 1));
  }

  async get(name: string): Promise<StoredText | undefined> {
    const own = await this.#own.get(name);
    if (own) return own;
    const other = await this.#shared.get(name);
    return other && toShared(other);
  }

  /** A shared one does not take the name: one's own comes in front of it. */
  put(name: string, text: string, options?: { readonly ifAbsent?: boolean }): Promise<boolean> {
    return this.#own.put(name, text, options);
  }

  delete(name: string): Promise<boolean> {
    return this.#own.delete(name);
  }

  /** Of one's own. */
  holds(count: number): Promise<boolean> {
    return this.#own.holds(count);
  }

  async version(): Promise<string> {
    return (await Promise.all([this.#own.version(), this.#shared.version()])).join(' ');
  }
}

const toShared = (text: StoredText): StoredText => ({ ...text, shared: true });

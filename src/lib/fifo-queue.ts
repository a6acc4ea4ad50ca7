/** A first-in, first-out queue. Unlike Array.shift, taking an item costs the same however many wait. */

const FEW = 1024;

export class FifoQueue<T> {
  #items: (T | undefined)[] = [];
  #taken = 0;

  get first(): T | undefined {
    return this.#items[this.#taken];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the first one out. */
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
}

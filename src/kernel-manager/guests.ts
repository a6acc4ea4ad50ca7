/** Programs that stay beside a kernel, such as terminals: while there are any it is in use, and they end with its life. */

export interface Guest {
  kill(): void;
  readonly exited: Promise<unknown>;
}

export class Guests {
  readonly #inside = new Set<Guest>();
  #entering = 0;
  #evictions = 0;

  get any(): boolean {
    return this.#inside.size + this.#entering > 0;
  }

  /** `left` is called when it has gone. */
  async welcome<G extends Guest>(enter: () => Promise<G>, left: () => void): Promise<G> {
    const before = this.#evictions;
    this.#entering++;
    try {
      const guest = await enter();
      this.#inside.add(guest);
      const leave = () => {
        this.#inside.delete(guest);
        left();
      };
      guest.exited.then(leave, leave);
      // What it came for ended while it came.
      if (this.#evictions !== before) guest.kill();
      return guest;
    } finally {
      this.#entering--;
    }
  }

  evict(): void {
    this.#evictions++;
    for (const guest of this.#inside) guest.kill();
  }
}

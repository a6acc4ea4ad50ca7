/** Sees to it that a key does not come back in an answer, also where two pieces of it arrive one after the other. */

export class KeyWatch {
  readonly #key: Buffer;
  #tail = Buffer.alloc(0);

  constructor(key: string) {
    this.#key = Buffer.from(key);
  }

  /** False where this piece, with those before it, holds the key: then it must not be passed on. */
  passes(chunk: Buffer): boolean {
    const joined = this.#tail.length === 0 ? chunk : Buffer.concat([this.#tail, chunk]);
    if (joined.includes(this.#key)) return false;
    this.#tail = Buffer.from(joined.subarray(Math.max(0, joined.length - this.#key.length + 1)));
    return true;
  }
}

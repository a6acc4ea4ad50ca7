/**
 * Gathers bytes that arrive in pieces into one buffer. A list of pieces would cost a hundred bytes per piece, so a client
 * that sends single bytes could fill the memory with a small body.
 */
export class GatheredBytes {
  #buffer: Buffer<ArrayBuffer> = Buffer.alloc(0);
  #size = 0;
  readonly #limit: number;
  #cut = 0;

  /** Bytes beyond the limit are counted and dropped. */
  constructor(limit = Number.POSITIVE_INFINITY) {
    this.#limit = limit;
  }

  get size(): number {
    return this.#size;
  }

  /** How many bytes were dropped. */
  get cut(): number {
    return this.#cut;
  }

  push(given: Uint8Array): void {
    const piece = given.subarray(0, this.#limit - this.#size);
    this.#cut += given.length - piece.length;
    const size = this.#size + piece.length;
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, Math.min(2 * this.#buffer.length, size + MOST_SPARE)));
      this.#buffer.copy(larger, 0, 0, this.#size);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#size);
    this.#size = size;
  }

  /** All bytes so far. */
  bytes(): Buffer<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#size);
  }
}

/** A large buffer keeps at most this much free space for bytes to come. */
const MOST_SPARE = 4 * 1024 * 1024;

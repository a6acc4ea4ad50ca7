/**
 * Bytes that come in pieces, in one buffer. A list of the pieces would cost a hundred bytes for each of them, and whoever
 * sends single bytes could fill the memory with a small body.
 */
export class GatheredBytes {
  #buffer: Buffer<ArrayBuffer> = Buffer.alloc(0);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(piece: Uint8Array): void {
    const size = this.#size + piece.length;
    if (size > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(size, Math.min(2 * this.#buffer.length, size + MOST_SPARE)));
      this.#buffer.copy(larger, 0, 0, this.#size);
      this.#buffer = larger;
    }
    this.#buffer.set(piece, this.#size);
    this.#size = size;
  }

  /** All of them so far. */
  bytes(): Buffer<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#size);
  }
}

/** Of a large buffer, no more than this is kept free for what may follow. */
const MOST_SPARE = 4 * 1024 * 1024;

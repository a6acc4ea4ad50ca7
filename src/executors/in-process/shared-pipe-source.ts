/** What the code writes, as it comes out of a shared pipe: no more is taken than its reader wants. */

import type { ByteSource } from '../../kernel/kernel-connection.ts';
import type { Pipe } from './wires.ts';

/** Reads of every pipe go through one buffer: a chunk is used up before the next read. */
const shared = Buffer.allocUnsafe(1 << 18);

export class SharedPipeSource implements ByteSource {
  readonly #pipe: Pipe;
  /** Told when there is room for more. */
  readonly #taken: () => void;
  #onChunk: ((chunk: Buffer) => boolean) | undefined;
  #onEnd: (() => void) | undefined;
  #reading = false;
  #ended = false;
  #closed = false;

  constructor(pipe: Pipe, taken: () => void) {
    this.#pipe = pipe;
    this.#taken = taken;
  }

  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#onEnd = onEnd;
    this.resume();
  }

  resume(): void {
    if (this.#closed) return;
    this.#reading = true;
    this.take();
  }

  /** Nothing is read by this source any more. */
  close(): void {
    this.#closed = true;
    this.#reading = false;
  }

  /** Nothing more will be written: what is there is read, then the end is told. */
  end(): void {
    this.#ended = true;
    this.take();
  }

  take(): void {
    if (!this.#reading || !this.#onChunk) return;
    const count = this.#pipe.read(shared);
    if (count > 0) {
      this.#taken();
      this.#reading = this.#onChunk(shared.subarray(0, count));
      // In turns with everything else that the host does.
      if (this.#pipe.size > 0) setImmediate(() => this.take());
    }
    if (this.#ended && this.#pipe.size === 0) this.#finish();
  }

  #finish(): void {
    const told = this.#onEnd;
    this.#onEnd = undefined;
    told?.();
  }
}

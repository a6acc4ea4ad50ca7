/** A worker's frames and output, carried by the ring buffers of the shared memory. */

import type { ByteSource } from '../../kernel/kernel-connection.ts';
import { BufferedFrameConnection } from '../../kernel/kernel-connection.ts';
import { asError } from '../../lib/values.ts';
import { encodeFrame, type Frame, type FrameDecoder, FrameType } from '../../protocol/kernel-frames.ts';
import type { SharedMemory, SharedRingBuffer } from './shared-memory.ts';

interface UnsentFrame {
  rest: Buffer;
  readonly sent: () => void;
}

/** Called for every frame in both directions. */
interface FrameObserver {
  sent(type: number, id: number): void;
  received(frame: Frame): void;
}

export class FramePipe extends BufferedFrameConnection {
  readonly #memory: SharedMemory;
  readonly #observer: FrameObserver;
  readonly #decoder: FrameDecoder;
  #unsent: UnsentFrame[] = [];
  #paused = false;
  #greeted = false;

  /** `decoder` belongs to the worker, because a frame of the previous kernel may be half read. */
  constructor(sharedMemory: SharedMemory, decoder: FrameDecoder, observer: FrameObserver) {
    super();
    this.#memory = sharedMemory;
    this.#decoder = decoder;
    this.#observer = observer;
  }

  send(type: number, id: number, payload: Uint8Array | string = ''): void {
    void this.#put(type, id, payload);
  }

  sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void> {
    return this.#put(type, id, payload);
  }

  protected override pauseReading(): void {
    this.#paused = true;
  }

  protected override resumeReading(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.take();
  }

  close(): void {
    this.unread();
  }

  /** Called when the worker or this kernel has ended. */
  end(problem?: Error): void {
    if (this.ended) return;
    for (const { sent } of this.#unsent.splice(0)) sent();
    this.finishReading(problem);
  }

  /** Reads received data, and sends data that waited for room. */
  take(): void {
    this.#flush();
    const incoming = this.#memory.pipe('fromKernel');
    while (!this.#paused && !this.ended) {
      const chunk = Buffer.allocUnsafe(incoming.size);
      if (chunk.length === 0) return;
      const count = incoming.read(chunk);
      this.#memory.wakeWorker();
      try {
        for (const frame of this.#decoder.push(chunk.subarray(0, count))) this.#give(frame);
      } catch (problem) {
        this.end(asError(problem));
      }
    }
  }

  #give(frame: Frame): void {
    // Frames before the hello belong to the previous kernel.
    this.#greeted ||= frame.type === FrameType.hello;
    if (!this.#greeted) return;
    this.#observer.received(frame);
    this.deliver(frame);
  }

  #put(type: number, id: number, payload: Uint8Array | string): Promise<void> {
    if (this.ended) return Promise.resolve();
    this.#observer.sent(type, id);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#unsent.push({ rest: encodeFrame(type, id, payload), sent: resolve });
    this.#flush();
    return promise;
  }

  #flush(): void {
    const pipe = this.#memory.pipe('toKernel');
    for (let next = this.#unsent[0]; next; next = this.#unsent[0]) {
      // Set before trying: the worker may make room meanwhile, and then reports it.
      this.#memory.set('crowded', 1);
      next.rest = next.rest.subarray(pipe.write(next.rest));
      this.#memory.wakeWorker();
      if (next.rest.length > 0) return;
      this.#unsent.shift();
      next.sent();
    }
    this.#memory.set('crowded', 0);
  }
}

/** All pipes are read through one buffer: each chunk is used before the next read. */
const sharedBuffer = Buffer.allocUnsafe(1 << 18);

export class SharedMemorySource implements ByteSource {
  readonly #pipe: SharedRingBuffer;
  /** Called when there is room for more. */
  readonly #taken: () => void;
  #onChunk: ((chunk: Buffer) => boolean) | undefined;
  #onEnd: (() => void) | undefined;
  #reading = false;
  #ended = false;
  #closed = false;

  constructor(pipe: SharedRingBuffer, taken: () => void) {
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

  /** Stops reading from this source. */
  close(): void {
    this.#closed = true;
    this.#reading = false;
  }

  /** Called when nothing more will be written: reads the rest, then reports the end. */
  end(): void {
    this.#ended = true;
    this.take();
  }

  take(): void {
    if (!this.#reading || !this.#onChunk) return;
    const count = this.#pipe.read(sharedBuffer);
    if (count > 0) {
      this.#taken();
      this.#reading = this.#onChunk(sharedBuffer.subarray(0, count));
      // Takes turns with the host's other work.
      if (this.#pipe.size > 0) setImmediate(() => this.take());
    }
    if (this.#ended && this.#pipe.size === 0) this.#finish();
  }

  #finish(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.();
  }
}

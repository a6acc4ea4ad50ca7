/** Frames to and from a worker through two shared pipes. One kernel after the other may speak through them. */

import type { FrameConnection } from '../../kernel/kernel-connection.ts';
import { encodeFrame, type Frame, type FrameDecoder, FrameType } from '../../protocol/frames.ts';
import type { Wires } from './wires.ts';

interface Unsent {
  rest: Buffer;
  readonly sent: () => void;
}

/** What passes through, for whoever keeps the worker. */
export interface Passing {
  sent(type: number, id: number): void;
  received(frame: Frame): void;
}

export class FramePipe implements FrameConnection {
  readonly #wires: Wires;
  readonly #passing: Passing;
  readonly #decoder: FrameDecoder;
  #unsent: Unsent[] = [];
  #onFrame: ((frame: Frame) => void) | undefined;
  #onEnd: ((problem?: Error) => void) | undefined;
  #early: Frame[] = [];
  #paused = false;
  #ended: { problem?: Error } | undefined;
  #greeted = false;

  /** `decoder` belongs to the worker: a frame of the kernel before may be half read. */
  constructor(wires: Wires, decoder: FrameDecoder, passing: Passing) {
    this.#wires = wires;
    this.#decoder = decoder;
    this.#passing = passing;
  }

  send(type: number, id: number, payload: Uint8Array | string = ''): void {
    void this.#put(type, id, payload);
  }

  sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void> {
    return this.#put(type, id, payload);
  }

  read(onFrame: (frame: Frame) => void, onEnd: (problem?: Error) => void): void {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    for (const frame of this.#early.splice(0)) onFrame(frame);
    if (this.#ended) onEnd(this.#ended.problem);
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    this.take();
  }

  close(): void {
    this.#onFrame = undefined;
    this.#onEnd = undefined;
    this.#early = [];
  }

  /** The worker has ended, or this kernel is no more. */
  end(problem?: Error): void {
    if (this.#ended) return;
    this.#ended = problem ? { problem } : {};
    for (const { sent } of this.#unsent.splice(0)) sent();
    this.#onEnd?.(problem);
  }

  /** Takes in what has come, and sends what has waited for room. */
  take(): void {
    this.#flush();
    const incoming = this.#wires.pipe('fromKernel');
    while (!this.#paused && !this.#ended) {
      const chunk = Buffer.allocUnsafe(incoming.size);
      if (chunk.length === 0) return;
      const count = incoming.read(chunk);
      this.#wires.wakeWorker();
      try {
        for (const frame of this.#decoder.push(chunk.subarray(0, count))) this.#give(frame);
      } catch (problem) {
        this.end(problem instanceof Error ? problem : new Error(String(problem)));
      }
    }
  }

  #give(frame: Frame): void {
    // What comes before is the word of a kernel that is no more.
    this.#greeted ||= frame.type === FrameType.hello;
    if (!this.#greeted) return;
    this.#passing.received(frame);
    if (this.#onFrame) this.#onFrame(frame);
    else this.#early.push(frame);
  }

  #put(type: number, id: number, payload: Uint8Array | string): Promise<void> {
    if (this.#ended) return Promise.resolve();
    this.#passing.sent(type, id);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#unsent.push({ rest: encodeFrame(type, id, payload), sent: resolve });
    this.#flush();
    return promise;
  }

  #flush(): void {
    const pipe = this.#wires.pipe('toKernel');
    for (let next = this.#unsent[0]; next; next = this.#unsent[0]) {
      // Before it is tried: the worker makes room while it is, and tells of it.
      this.#wires.set('crowded', 1);
      next.rest = next.rest.subarray(pipe.write(next.rest));
      this.#wires.wakeWorker();
      if (next.rest.length > 0) return;
      this.#unsent.shift();
      next.sent();
    }
    this.#wires.set('crowded', 0);
  }
}

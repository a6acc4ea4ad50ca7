/** The reading side of a frame connection: frames that arrive before anybody reads them wait, in bounded memory. */

import { FRAME_COST, type Frame } from '../protocol/kernel-frames.ts';
import type { FrameConnection } from './kernel-connection.ts';

/** A connection with more than this unread is paused. */
const MOST_EARLY_BYTES = 1024 * 1024;

export abstract class BufferedFrameConnection implements FrameConnection {
  readonly #firstFrame = Promise.withResolvers<void>();
  #onFrame: ((frame: Frame) => void) | undefined;
  #onEnd: ((problem?: Error) => void) | undefined;
  #early: Frame[] = [];
  #earlyBytes = 0;
  #paused = false;
  #ended: { readonly problem: Error | undefined } | undefined;

  abstract send(type: number, id: number, payload?: Uint8Array | string): void;
  abstract sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void>;
  abstract close(): void;
  protected abstract pauseReading(): void;
  protected abstract resumeReading(): void;

  pause(): void {
    this.#paused = true;
    this.#applyPause();
  }

  resume(): void {
    this.#paused = false;
    this.#applyPause();
  }

  read(onFrame: (frame: Frame) => void, onEnd: (problem?: Error) => void): void {
    this.#onFrame = onFrame;
    this.#onEnd = onEnd;
    const early = this.#early;
    this.#early = [];
    this.#earlyBytes = 0;
    // A reader may call `unread` after any of them.
    for (const frame of early) this.deliver(frame);
    this.#applyPause();
    if (this.#ended) this.#onEnd?.(this.#ended.problem);
  }

  /** Takes the reader away again: what comes next waits for another. */
  unread(): void {
    this.#onFrame = undefined;
    this.#onEnd = undefined;
  }

  /** Resolves when a frame waits to be read, or none will come. */
  get firstFrame(): Promise<void> {
    return this.#firstFrame.promise;
  }

  /** Whether nothing more will come. */
  protected get ended(): boolean {
    return this.#ended !== undefined;
  }

  protected deliver(frame: Frame): void {
    if (this.#onFrame) {
      this.#onFrame(frame);
      return;
    }
    this.#early.push(frame);
    this.#earlyBytes += frame.payload.length + FRAME_COST;
    if (this.#earlyBytes > MOST_EARLY_BYTES) this.pauseReading();
    this.#firstFrame.resolve();
  }

  /** Nothing more will come. */
  protected finishReading(problem?: Error): void {
    if (this.#ended) return;
    this.#ended = { problem };
    this.#firstFrame.resolve();
    this.#onEnd?.(problem);
  }

  #applyPause(): void {
    if (this.#paused || this.#earlyBytes > MOST_EARLY_BYTES) this.pauseReading();
    else this.resumeReading();
  }
}

/** Frames from a kernel, handled in order. What waits is counted in the kernel's budget. */

import { FifoQueue } from '../lib/queues.ts';
import { FRAME_COST, type Frame, FrameError } from '../protocol/kernel-frames.ts';
import type { KernelBudget } from './kernel-budget.ts';

/** A frame in its turn: taken apart once, however often it has to wait. */
export interface QueuedFrame {
  readonly frame: Frame;
  parsed?: unknown;
}

export interface FrameHandler {
  /** Returns false if the frame must wait; throws FrameError if it is not allowed. */
  handle(next: QueuedFrame): boolean;
  /** The kernel violated the protocol. */
  violated(reason: string): void;
}

export class FrameQueue {
  readonly #budget: Pick<KernelBudget, 'take' | 'give'>;
  readonly #handler: FrameHandler;
  readonly #frames = new FifoQueue<QueuedFrame>();
  #pumping = false;
  #closed = false;

  constructor(budget: Pick<KernelBudget, 'take' | 'give'>, handler: FrameHandler) {
    this.#budget = budget;
    this.#handler = handler;
  }

  receive(frame: Frame): void {
    // After a protocol violation, frames that still arrive are ignored.
    if (this.#closed) return;
    this.#frames.push({ frame });
    // What waits for output to be read must not fill the host's memory meanwhile.
    this.#budget.take('waiting', sizeOf(frame));
    this.pump();
  }

  /** Handles frames in order, each when the output before it has been delivered. */
  pump(): void {
    // Handling a frame lets output go on, which may come back here for the next frame.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let next = this.#frames.first; next; next = this.#frames.first) {
        if (!this.#handler.handle(next)) break;
        // The handler may have closed this queue.
        if (this.#closed) break;
        this.#frames.shift();
        this.#budget.give('waiting', sizeOf(next.frame));
      }
    } catch (error) {
      this.#handler.violated(error instanceof FrameError ? error.message : String(error));
    } finally {
      this.#pumping = false;
    }
  }

  /** Ignores all further frames. */
  close(): void {
    this.#closed = true;
    this.#frames.clear();
  }
}

export function parsedOnce<T>(next: QueuedFrame, parse: (payload: Buffer) => T): T {
  next.parsed ??= parse(next.frame.payload);
  return next.parsed as T;
}

function sizeOf({ payload }: Frame): number {
  return payload.length + FRAME_COST;
}

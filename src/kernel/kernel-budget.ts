/** How much memory a kernel may take on the host, and the queue in which its frames wait. */

import { FifoQueue } from '../lib/queues.ts';
import { FRAME_COST, type Frame, FrameError } from '../protocol/kernel-frames.ts';
import type { FrameConnection } from './kernel-connection.ts';

const MIB = 1024 * 1024;

const MOST = {
  waiting: 64 * MIB,
  calls: 64 * MIB,
  /** Reached only while code is being stopped, because then nothing waits for the reader; see READER_PAUSE_BYTES. */
  unread: 8 * MIB,
  kept: 32 * MIB,
  displays: 8 * MIB,
  output: 64 * MIB,
} as const;

/** With more unread bytes than this, the reader counts as slow and the kernel waits for it. */
const READER_PAUSE_BYTES = MIB;

/** The most that a result keeps of each of its two streams. */
export const MOST_STREAM_BYTES = MOST.output / 2;

type Held = keyof typeof MOST;

const NO_LINK = { pause: () => {}, resume: () => {} };

/**
 * Counts all memory that one kernel makes the host hold, in bytes by kind. Each kind has a limit, so their sum bounds the
 * kernel, and each kind has its own way to enforce it:
 *
 * - waiting: queued frames, and parts of a save that are being written. Over the limit, the host stops reading from the kernel.
 * - calls: running calls, and replies that the kernel has not accepted. Over the limit, its next calls wait. One reply may
 *   exceed the limit (80 MiB, host-calls.ts); large replies are made one at a time.
 * - unread: events that the reader of the cell has not taken. Over the limit, the host stops reading from the kernel.
 * - kept: names and headers of a save, prompts. They are freed only when their operation ends: a kernel that needs more is cut
 *   off.
 * - displays, output: what the result of the running cell will contain. The result reports how much it leaves out.
 *
 * Not counted here, because bounded elsewhere: a partly received frame, by the largest of its type (protocol/kernel-frames.ts);
 * frames before the first reader, 1 MiB (MOST_EARLY_BYTES); one read of an output pipe, 96 KiB
 * (environments/supervisor/supervisor-transport.ts); output between cells, of which the session keeps the newest 1 MiB
 * (session/session.ts). A cell's result, and the events left unread when it ended, belong to its caller: they are no larger
 * than what is counted here, and a kernel runs one cell at a time.
 */
export class KernelBudget {
  readonly #link: Pick<FrameConnection, 'pause' | 'resume'>;
  readonly #held = { waiting: 0, calls: 0, unread: 0, kept: 0, displays: 0, output: 0 };
  #waitsForReader = true;
  #resting = false;
  #paused = false;

  /** `link` is paused while the kernel must wait. Without a link nothing is paused. */
  constructor(link: Pick<FrameConnection, 'pause' | 'resume'> = NO_LINK) {
    this.#link = link;
  }

  /** Whether this many more bytes of the kind fit. */
  hasRoom(kind: Held, bytes = 0): boolean {
    return this.#held[kind] + bytes <= MOST[kind];
  }

  /** Whether the cell's reader keeps up, or does not have to be waited for. */
  get readerHasRoom(): boolean {
    return !this.#waitsForReader || this.#held.unread < READER_PAUSE_BYTES;
  }

  /** Sets whether the kernel waits for a slow reader. It must not wait while its code is being stopped. */
  waitForReader(waits: boolean): void {
    this.#waitsForReader = waits;
    this.#settle();
  }

  /** Throws FrameError if the kind `kept` exceeds its limit. */
  take(kind: Held, bytes: number): void {
    this.#held[kind] += bytes;
    this.#settle();
    if (kind !== 'kept' || this.hasRoom(kind)) return;
    throw new FrameError(`more than ${MOST.kept} bytes of names and prompts`);
  }

  give(kind: Held, bytes: number): void {
    this.#held[kind] -= bytes;
    this.#settle();
  }

  /** Stops reading for this turn of the event loop: the received data takes long to handle, and other work is waiting. */
  rest(): void {
    if (this.#resting) return;
    this.#resting = true;
    setImmediate(() => {
      this.#resting = false;
      this.#settle();
    });
    this.#settle();
  }

  #settle(): void {
    const paused = this.#resting || !this.readerHasRoom || !this.hasRoom('waiting');
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.#link.pause();
    else this.#link.resume();
  }
}

/** A frame that may have to wait several times but is parsed only once. */
export interface QueuedFrame {
  readonly frame: Frame;
  parsed?: unknown;
}

interface FrameHandler {
  /** Returns false if the frame must wait; throws FrameError if it is not allowed. */
  handle(next: QueuedFrame): boolean;
  /** The kernel violated the protocol. */
  violated(reason: string): void;
}

/** Handles the frames of a kernel in order. Frames that wait are counted in the kernel's budget. */
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
    // Frames that wait for output to be read must not fill the host's memory.
    this.#budget.take('waiting', sizeOf(frame));
    this.pump();
  }

  /** Handles frames in order, each after the output before it has been delivered. */
  pump(): void {
    // Handling a frame releases output, which can call `pump` again for the next frame.
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

/**
 * What one kernel makes the host hold, in bytes. All of it is counted here, by its kind. Each kind has a bound, so a kernel
 * takes no more than the sum of them, and each has its own way to say that there is no more:
 *
 * - waiting: frames that wait for their turn, parts of a save on their way to the disk. Nothing more is read from the kernel.
 * - calls: calls that are carried out, and replies that the kernel has not taken. Its next calls wait. One reply may be
 *   larger than the bound (80 MiB, host-calls.ts); large ones are made one at a time.
 * - unread: events that the reader of the cell has not taken. Nothing more is read from the kernel.
 * - kept: names and headers of a save, prompts. They go with their work alone: a kernel that wants more is cut off.
 * - displays, output: what the result of the cell that runs will hold. The result says how much it leaves out.
 *
 * Not counted here, because it is bounded elsewhere: a frame of which a part has come, by the largest of its type
 * (protocol/kernel-frames.ts); frames before anybody reads, 1 MiB (kernel-connection.ts); one read of an output pipe, 96 KiB
 * (environments/supervisor/supervisor-transport.ts); output between cells, of which the session keeps the newest 1 MiB (session/session.ts). The
 * result of a cell, and the events that were not read when it ended, belong to whoever asked for the cell: they are no
 * larger than what is counted here, and a kernel runs one cell at a time.
 */

import { FrameError } from '../protocol/kernel-frames.ts';
import type { FrameConnection } from './kernel-connection.ts';

const MIB = 1024 * 1024;

const MOST = {
  waiting: 64 * MIB,
  calls: 64 * MIB,
  /** Reached only while code is being stopped, which waits for no reader; see READER_PAUSE_BYTES. */
  unread: 8 * MIB,
  kept: 32 * MIB,
  displays: 8 * MIB,
  output: 64 * MIB,
} as const;

/** A reader that has so much to read is slow: the kernel waits for it. */
const READER_PAUSE_BYTES = MIB;

/** What a result keeps of one of its two streams. */
export const MOST_STREAM_BYTES = MOST.output / 2;

export type Held = keyof typeof MOST;

const NO_LINK = { pause: () => {}, resume: () => {} };

export class KernelBudget {
  readonly #link: Pick<FrameConnection, 'pause' | 'resume'>;
  readonly #held = { waiting: 0, calls: 0, unread: 0, kept: 0, displays: 0, output: 0 };
  #waitsForReader = true;
  #paused = false;

  /** `link`: what is paused when the kernel must wait. Without it nothing is. */
  constructor(link: Pick<FrameConnection, 'pause' | 'resume'> = NO_LINK) {
    this.#link = link;
  }

  /** Whether so many more bytes of this kind have room. */
  hasRoom(kind: Held, bytes = 0): boolean {
    return this.#held[kind] + bytes <= MOST[kind];
  }

  /** Whether the reader of the cell is not too far behind, or need not be waited for. */
  get readerHasRoom(): boolean {
    return !this.#waitsForReader || this.#held.unread < READER_PAUSE_BYTES;
  }

  /** Whether the kernel waits for a reader that is slow. It must not while its code is being stopped. */
  waitForReader(waits: boolean): void {
    this.#waitsForReader = waits;
    this.#settle();
  }

  /** FrameError if it is too much of what is kept. */
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

  #settle(): void {
    const paused = !this.readerHasRoom || !this.hasRoom('waiting');
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.#link.pause();
    else this.#link.resume();
  }
}

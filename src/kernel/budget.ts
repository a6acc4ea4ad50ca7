/**
 * What one kernel makes the host hold, in bytes, counted in one place. What flows (frames that wait, calls and their
 * replies, parts on their way to the disk) has backpressure: above its limit nothing more is read from the kernel. What
 * is kept (names of a checkpoint, prompts) goes with its work alone: a kernel that wants more of it is cut off.
 */

import { FrameError } from '../protocol/frames.ts';
import type { FrameLink } from './link.ts';

const MOST_FLOWING_BYTES = 64 * 1024 * 1024;
const MOST_KEPT_BYTES = 32 * 1024 * 1024;

export class KernelBudget {
  readonly #link: Pick<FrameLink, 'pause' | 'resume'>;
  #flowing = 0;
  #kept = 0;
  /** Whether a reader of events has no room: nothing is read until it has, whatever is held. */
  #readerFull = false;
  #paused = false;

  constructor(link: Pick<FrameLink, 'pause' | 'resume'>) {
    this.#link = link;
  }

  /** Whether there is room for more that flows. */
  get hasRoom(): boolean {
    return this.#flowing <= MOST_FLOWING_BYTES;
  }

  hold(bytes: number): void {
    this.#flowing += bytes;
    this.#settle();
  }

  release(bytes: number): void {
    this.#flowing -= bytes;
    this.#settle();
  }

  /** FrameError where it is too much. */
  keep(bytes: number): void {
    this.#kept += bytes;
    if (this.#kept > MOST_KEPT_BYTES) throw new FrameError(`more than ${MOST_KEPT_BYTES} bytes of names and prompts`);
  }

  letGo(bytes: number): void {
    this.#kept -= bytes;
  }

  readerFull(full: boolean): void {
    this.#readerFull = full;
    this.#settle();
  }

  #settle(): void {
    const paused = this.#readerFull || !this.hasRoom;
    if (paused === this.#paused) return;
    this.#paused = paused;
    if (paused) this.#link.pause();
    else this.#link.resume();
  }
}

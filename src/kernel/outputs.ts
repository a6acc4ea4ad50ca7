/** Both output streams of a kernel, put in order with its frames by the marks that it writes into them. */

import { whenLate } from './late.ts';
import type { KernelLink } from './link.ts';
import { OutputStream } from './output.ts';

export type StreamName = 'stdout' | 'stderr';
/** `owner` is set where the kernel says which execution, other than the one that runs, the text belongs to. */
export type Deliver = (name: StreamName, text: string, owner?: number) => boolean;
export type Marks = readonly [stdout: number, stderr: number];

/** How long a frame waits for output that was marked before it, while that output is being read. */
const MARK_WAIT_MS = 1000;
/** How long a dead kernel's output may take to end. */
const LAST_OUTPUT_MS = 300;
const EVERY_MARK: Marks = [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];

export class Outputs {
  readonly #stdout: OutputStream;
  readonly #stderr: OutputStream;
  readonly #onChange: () => void;
  #late: (() => void) | undefined;

  /** `deliver` answers whether to go on reading; `onChange` is told when a frame that waits may go on. */
  constructor(link: KernelLink, deliver: Deliver, onChange: () => void) {
    this.#onChange = onChange;
    this.#stdout = new OutputStream(link.stdout, (text, owner) => deliver('stdout', text, owner), onChange);
    this.#stderr = new OutputStream(link.stderr, (text, owner) => deliver('stderr', text, owner), onChange);
  }

  /** Nothing is delivered before it: until then nobody knows how the kernel labels output. */
  open(label?: Uint8Array): void {
    this.#stdout.open(label);
    this.#stderr.open(label);
  }

  begin(mark: Buffer): void {
    this.#stdout.begin(mark);
    this.#stderr.begin(mark);
  }

  /** Whether everything that was written before these marks is delivered. */
  reached(marks: Marks): boolean {
    if (this.#stdout.reached(marks[0]) && this.#stderr.reached(marks[1])) {
      this.stopWaiting();
      return true;
    }
    this.#late ??= whenLate(MARK_WAIT_MS, () => {
      this.#late = undefined;
      // A reader that is slow is waited for; a mark that the code has swallowed is not.
      if (!this.#stdout.paused && !this.#stderr.paused) this.release(marks);
      this.#onChange();
    });
    return false;
  }

  /** The frame that belongs to these marks is handled: what follows them may come. */
  release([out, err]: Marks): void {
    this.#stdout.release(out);
    this.#stderr.release(err);
  }

  resume(): void {
    this.#stdout.resume();
    this.#stderr.resume();
  }

  /** The execution is over. */
  finish(): void {
    this.#stdout.finish();
    this.#stderr.finish();
  }

  stopWaiting(): void {
    this.#late?.();
    this.#late = undefined;
  }

  /** What the kernel wrote before it died is still in its pipes. */
  async last(): Promise<void> {
    this.open();
    this.release(EVERY_MARK);
    const late = Promise.withResolvers<void>();
    const cancel = whenLate(LAST_OUTPUT_MS, late.resolve);
    await Promise.race([Promise.all([this.#stdout.end, this.#stderr.end]), late.promise]);
    cancel();
  }

  close(): void {
    this.#stdout.close();
    this.#stderr.close();
  }
}

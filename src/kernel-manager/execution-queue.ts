/** Executions of one session: one at a time, in the order they came, with a limit on how many may wait. */

import { SerialQueue } from '../lib/queues.ts';
import { CellaError } from '../protocol/errors.ts';

export class ExecutionQueue extends SerialQueue {
  readonly #limit: () => number;
  #pending = 0;

  constructor(limit: () => number) {
    super();
    this.#limit = limit;
  }

  /** Executions that run or wait. */
  get pending(): number {
    return this.#pending;
  }

  /** Counts one more execution; call what it returns when the execution has ended. Throws `KERNEL_BUSY` if too many wait. */
  enter(): () => void {
    if (this.#pending > this.#limit()) {
      const queued = this.#pending - 1;
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${queued} executions wait for it already.`, {
        details: { queued },
      });
    }
    this.#pending++;
    let pending = true;
    return () => {
      if (pending) this.#pending--;
      pending = false;
    };
  }
}

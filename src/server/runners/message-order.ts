/** The order of a turn's messages: each number once, without gaps. */

import { CellaError } from '../../protocol/errors.ts';

export class MessageOrder {
  #taken = 0;

  /** Throws `RUNNER_PROTOCOL` for a repeat or a gap. */
  take(sequence: number): void {
    const expected = this.#taken + 1;
    if (sequence === expected) {
      this.#taken = sequence;
      return;
    }
    const problem = sequence < expected ? 'was sent before' : `came instead of ${expected}`;
    throw new CellaError('RUNNER_PROTOCOL', `Message ${sequence} of the turn ${problem}.`, {
      details: { expected, sequence },
    });
  }

  /** How many came; `report_completion` must say the same. */
  get count(): number {
    return this.#taken;
  }
}

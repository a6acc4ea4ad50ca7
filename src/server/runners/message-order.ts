/** The order of a task's messages: each number once, and none left out. */

import { CellaError } from '../../protocol/errors.ts';

export class MessageOrder {
  #taken = 0;

  /** Of a message that has come. RUNNER_PROTOCOL where it is a repeat, or one before it is missing. */
  take(sequence: number): void {
    const expected = this.#taken + 1;
    if (sequence === expected) {
      this.#taken = sequence;
      return;
    }
    const trouble = sequence < expected ? 'was sent before' : `came where ${expected} was due`;
    throw new CellaError('RUNNER_PROTOCOL', `Message ${sequence} of the task ${trouble}.`, {
      details: { expected, sequence },
    });
  }

  /** How many there were: what `report_completion` must say too. */
  get count(): number {
    return this.#taken;
  }
}

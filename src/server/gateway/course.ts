/**
 * How far a call has got at its provider, and what that may charge for it where it never tells. An agent chooses when it
 * hangs up, and what a model thinks is not seen: only time, and what the call wanted, bound what was made of an answer.
 */

import type { Asked } from './asked.ts';

/** Tokens of one answer: more than the models of these providers make, of which the fastest make some hundreds. */
const MOST_PER_SECOND = 500;
/** How long a provider may go on with a stream until it sees that nobody takes it. */
const NOTICED_MS = 2000;

export class Course {
  readonly #clock: () => number;
  #heardAt: number | undefined;
  #refused = false;

  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  /** There is a connection: whatever comes of the request, the provider may have it. */
  heard(): void {
    this.#heardAt = this.#clock();
  }

  /** An answer that is an error, or leads elsewhere, is not charged for. */
  answered(status: number): void {
    this.#refused = status < 200 || status >= 300;
  }

  /** Since the provider has had it; undefined where it has not, or has refused it. */
  get workedMs(): number | undefined {
    return this.#heardAt === undefined || this.#refused ? undefined : this.#clock() - this.#heardAt;
  }
}

/** Tokens of output. `isOver`: the answer has come to its end. */
export function madeAtMost(
  { wanted, streamed }: Pick<Asked, 'wanted' | 'streamed'>,
  { workedMs, isOver }: { readonly workedMs: number; readonly isOver: boolean },
): number {
  // What is no stream is made to its end, whether or not anybody waits for it.
  if (!isOver && !streamed) return wanted.tokens;
  const ms = Math.max(0, workedMs) + (isOver ? 0 : NOTICED_MS);
  return Math.min(wanted.tokens, Math.ceil((ms * MOST_PER_SECOND) / 1000) * wanted.answers);
}

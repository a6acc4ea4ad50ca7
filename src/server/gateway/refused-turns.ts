/** Why the gateway refused the last call of a turn: an agent tells it in a provider's words, and a person is told in ours. */

import { BoundedMap } from '../../lib/bounded-map.ts';
import type { CellaError, ErrorCode } from '../../protocol/errors.ts';

/** What the person who prompts, or the operator, can do something about. */
const TOLD: ReadonlySet<ErrorCode> = new Set([
  'BUDGET_EXCEEDED',
  'MODEL_NOT_ALLOWED',
  'CREDENTIAL_MISSING',
  'CREDENTIAL_UNREADABLE',
]);
/** Of turns that nobody asks for any more. */
const MOST_TURNS = 1000;

export class RefusedTurns {
  readonly #refused = new BoundedMap<string, CellaError>(MOST_TURNS);

  note(turn: string, error: CellaError): void {
    if (!TOLD.has(error.code) && error.details.lasting !== true) return;
    this.#refused.set(turn, error);
  }

  /** A call that was answered: what was refused before is not why the turn ends. */
  answered(turn: string): void {
    this.#refused.delete(turn);
  }

  /** Asked for once, when the turn is over. */
  take(turn: string): CellaError | undefined {
    return this.#refused.take(turn);
  }
}

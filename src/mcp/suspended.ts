/** Runs whose call has ended with a question, by the word that the client brings back with the answer. */

import { randomBytes } from 'node:crypto';
import type { Question } from './questions.ts';
import type { Run } from './run.ts';

/** How long the result of a run waits for a client that does not come back. */
const KEPT_MS = 600_000;

export interface Suspension {
  readonly run: Run;
  readonly question: Question;
}

export class Suspended {
  readonly #runs = new Map<string, Suspension>();

  /** The word cannot be guessed, and is good for one answer. */
  keep(suspension: Suspension): string {
    const word = randomBytes(24).toString('base64url');
    this.#runs.set(word, suspension);
    void suspension.run.ended.then(() => setTimeout(() => this.#runs.delete(word), KEPT_MS).unref());
    return word;
  }

  take(word: string): Suspension | undefined {
    const found = this.#runs.get(word);
    this.#runs.delete(word);
    return found;
  }
}

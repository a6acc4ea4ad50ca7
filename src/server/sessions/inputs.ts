/** Questions of the code that wait for somebody's answer: the first answer wins, and the log tells who gave it. */

import { CellaError } from '../../protocol/errors.ts';
import type { InputRequestEvent } from '../../protocol/execution-events.ts';
import type { Session } from '../../session/session.ts';
import type { EventWriter } from './event-writer.ts';

export interface Answer {
  readonly outcome: 'answered' | 'cancelled';
  readonly by?: string | undefined;
}

export class Inputs {
  readonly #writer: EventWriter;
  /** The execution that asks, by the number of the question. */
  readonly #pending = new Map<number, string>();

  constructor(writer: EventWriter) {
    this.#writer = writer;
  }

  asked({ id }: InputRequestEvent, execution: string): void {
    this.#pending.set(id, execution);
  }

  /** `reply` gives it to the kernel, which refuses what it no longer waits for. */
  async reply(
    session: Session | undefined,
    id: number,
    { outcome, by }: Answer,
    reply: (session: Session) => Promise<void>,
  ): Promise<void> {
    const execution = this.#pending.get(id);
    if (execution === undefined || !session) {
      throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    }
    // Before anything is waited for: a second answer finds nothing.
    this.#pending.delete(id);
    await reply(session);
    await this.#writer.write({
      type: 'input_answered',
      ...{ execution, id, outcome },
      ...(by === undefined ? {} : { by }),
    });
  }

  /** The cell is over: nobody waits for these any more. */
  end(execution: string): void {
    for (const [id, asker] of this.#pending) {
      if (asker !== execution) continue;
      this.#pending.delete(id);
      this.#writer.add({ type: 'input_answered', execution, id, outcome: 'unanswered' });
    }
  }

  forget(execution: string): void {
    for (const [id, asker] of this.#pending) if (asker === execution) this.#pending.delete(id);
  }
}

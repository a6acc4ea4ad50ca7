/** Answers to code that asks, by input() and its like: what the caller says, or that nobody is there to say it. */

import type { ExecutionEvent, InputRequestEvent } from '../protocol/execution-events.ts';
import type * as api from '../session/api.ts';
import { isCode } from './failure.ts';

const NO_ONE = 'input() was called, but nobody is there to answer: pass `onInput` to run(), or read stream()';
const NO_READER = 'input() was called, but nobody reads the events of this cell any more';

export type Answerable = Pick<api.SessionApi, 'answerInput' | 'cancelInput'>;

export class Answers {
  readonly #session: Answerable;

  constructor(session: Answerable) {
    this.#session = session;
  }

  /** What `onInput` says; where there is none, that nobody is there. */
  async give(request: InputRequestEvent, onInput: api.RunOptions['onInput']): Promise<void> {
    try {
      if (onInput) await this.#session.answerInput(request.id, await onInput(request));
      else await this.#session.cancelInput(request.id, NO_ONE);
    } catch (error) {
      if (isCode(error, 'INPUT_NOT_PENDING')) return;
      // Answered meanwhile, or the cell tells what is wrong.
      await this.#session.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {});
    }
  }

  /** Where the reader leaves, the code goes on, and what it asks is refused. */
  async *whileRead(events: AsyncGenerator<ExecutionEvent, void, undefined>): AsyncGenerator<ExecutionEvent> {
    let over = false;
    let asked: InputRequestEvent | undefined;
    try {
      while (true) {
        const { value: event, done } = await events.next().catch((error) => {
          over = true;
          throw error;
        });
        if (done) {
          over = true;
          return;
        }
        if (event.type === 'input_request') asked = event;
        yield event;
      }
    } finally {
      if (!over) void this.#attend(events, asked);
    }
  }

  async #attend(
    events: AsyncGenerator<ExecutionEvent, void, undefined>,
    asked: InputRequestEvent | undefined,
  ): Promise<void> {
    try {
      if (asked) await this.#refuse(asked);
      for await (const event of events) if (event.type === 'input_request') await this.#refuse(event);
    } catch {
      // Nobody is there to be told.
    }
  }

  /** Somebody else may have answered meanwhile. */
  async #refuse({ id }: InputRequestEvent): Promise<void> {
    await this.#session.cancelInput(id, NO_READER).catch(() => {});
  }
}

/** Answers input() and getpass() of running code, one question after the other. */

import { CellaError } from '../protocol/errors.ts';
import type { InputRequestEvent } from '../protocol/events.ts';
import type { SessionApi } from '../session/api.ts';
import type { LineSource } from './lines.ts';

export interface QuestionsOptions {
  readonly session: Pick<SessionApi, 'answerInput' | 'cancelInput'>;
  readonly lines: LineSource;
  /** Ctrl-C in the middle of an answer. */
  readonly onInterrupt: () => void;
}

export class Questions implements Disposable {
  readonly #options: QuestionsOptions;
  readonly #over = new AbortController();
  #before: Promise<void> = Promise.resolve();

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Resolves when the question is answered, refused, or of no interest any more because the code has ended. */
  ask(request: InputRequestEvent): Promise<void> {
    this.#before = this.#before.then(() => this.#answer(request));
    return this.#before;
  }

  /** The code has ended: what is being asked is taken back. */
  [Symbol.dispose](): void {
    this.#over.abort();
  }

  async #answer({ id, prompt, password }: InputRequestEvent): Promise<void> {
    const { session, lines, onInterrupt } = this.#options;
    const line = await lines.read({ prompt, password, signal: this.#over.signal });
    try {
      if (line.kind === 'line') await session.answerInput(id, line.text);
      else if (line.kind === 'end') await session.cancelInput(id, 'stdin has ended');
      else if (line.kind === 'interrupt') onInterrupt();
    } catch (error) {
      // The code went on without the answer: it was interrupted, or its time was up.
      const late = error instanceof CellaError && ['INPUT_NOT_PENDING', 'SESSION_CLOSED'].includes(error.code);
      if (!late) throw error;
    }
  }
}

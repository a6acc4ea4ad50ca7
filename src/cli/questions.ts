/** Answers input() and getpass() of running code, one question after the other. */

import { CellaError } from '../protocol/errors.ts';
import type { InputRequestEvent } from '../protocol/execution-events.ts';
import type { SessionApi } from '../session/api.ts';
import type { Line, LineSource } from './lines.ts';
import type { Terminal } from './terminal.ts';

export interface QuestionsOptions {
  readonly session: Pick<SessionApi, 'answerInput' | 'cancelInput'>;
  readonly lines: LineSource;
  readonly terminal: Pick<Terminal, 'asking' | 'free'>;
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

  async #answer(request: InputRequestEvent): Promise<void> {
    const { id } = request;
    const { session, onInterrupt } = this.#options;
    const line = await this.#read(request);
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

  /** Put again after what must stand alone: its words could be taken for a part of that, and what is typed for an answer to it. */
  async #read({ prompt, password }: InputRequestEvent): Promise<Line> {
    const { lines, terminal } = this.#options;
    const over = this.#over.signal;
    for (;;) {
      while (terminal.asking && !over.aborted) await terminal.asking;
      const { free } = terminal;
      const line = await lines.read({ prompt, password, signal: AbortSignal.any([over, free]) });
      if (line.kind !== 'aborted' || over.aborted || !free.aborted) return line;
    }
  }
}

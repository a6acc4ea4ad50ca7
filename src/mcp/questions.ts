/** What running code needs from a person: the answer to an input(), or leave to use a tool. One at a time. */

import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';

export type Answer =
  | { readonly kind: 'given'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly kind: 'refused'; readonly reason: string };

export interface Question {
  readonly form: ElicitRequestFormParams;
  /** Aborted when nobody needs the answer any more. */
  readonly over: AbortSignal;
  settle(answer: Answer): void;
}

export class Questions {
  readonly #waiting: Question[] = [];
  readonly #onChange: () => void;
  readonly #patienceMs: number;

  constructor(onChange: () => void, patienceMs: number) {
    this.#onChange = onChange;
    this.#patienceMs = patienceMs;
  }

  get first(): Question | undefined {
    return this.#waiting[0];
  }

  /** Resolves with the answer, or with a refusal where none comes in time. */
  ask(form: ElicitRequestFormParams, signal?: AbortSignal): Promise<Answer> {
    const settled = Promise.withResolvers<Answer>();
    const over = new AbortController();
    const settle = (answer: Answer) => {
      const at = this.#waiting.indexOf(question);
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
      over.abort();
      settled.resolve(answer);
      this.#onChange();
    };
    const giveUp = () => settle({ kind: 'refused', reason: 'the code no longer waits for an answer' });
    const late = `nobody has answered within ${this.#patienceMs / 1000} s`;
    const timer = setTimeout(() => settle({ kind: 'refused', reason: late }), this.#patienceMs);
    const question: Question = { form, over: over.signal, settle };
    this.#waiting.push(question);
    if (signal?.aborted) giveUp();
    else signal?.addEventListener('abort', giveUp);
    this.#onChange();
    return settled.promise;
  }

  /** The code has ended. */
  close(): void {
    for (const question of [...this.#waiting]) question.settle({ kind: 'refused', reason: 'the code has ended' });
  }
}

/** One execution that a client has asked for. It may outlive the call that began it, while a person is being asked. */

import type { CallToolResult, ElicitRequestFormParams } from '@modelcontextprotocol/server';
import type { ExecutionEvent } from '../protocol/execution-events.ts';
import { Output } from './output.ts';
import { type Answer, type Question, Questions } from './questions.ts';

/** How long a person has to answer. */
export const PATIENCE_MS = 300_000;

const MOST_UNTOLD = 2000;

/** The call that waits for a run. */
export interface Caller {
  readonly signal: AbortSignal;
  /** Whether it can put a question to a person. */
  readonly canAsk: boolean;
  tell(text: string): void;
}

export type Step =
  | { readonly kind: 'question'; readonly question: Question }
  | { readonly kind: 'done'; readonly result: CallToolResult };

export class Run {
  readonly output = new Output();
  readonly ended: Promise<void>;
  readonly #abort = new AbortController();
  readonly #questions = new Questions(() => this.#changed.resolve(), PATIENCE_MS);
  #changed = Promise.withResolvers<void>();
  #caller: Caller | undefined;
  #canAsk = false;
  #untold = '';
  #result: CallToolResult | undefined;

  /** `perform` never rejects. */
  constructor(caller: Caller, perform: (run: Run) => Promise<CallToolResult>) {
    this.#canAsk = caller.canAsk;
    this.#caller = caller;
    this.ended = perform(this).then((result) => {
      this.#result = result;
      this.#questions.close();
      this.#changed.resolve();
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get canAsk(): boolean {
    return this.#canAsk;
  }

  /** Until it is disposed, this caller hears of progress and can cancel. */
  attach(caller: Caller): Disposable {
    this.#caller = caller;
    this.#canAsk = caller.canAsk;
    if (this.#untold !== '') caller.tell(this.#untold);
    this.#untold = '';
    const cancel = () => this.cancel();
    if (caller.signal.aborted) cancel();
    caller.signal.addEventListener('abort', cancel);
    return {
      [Symbol.dispose]: () => {
        caller.signal.removeEventListener('abort', cancel);
        if (this.#caller === caller) this.#caller = undefined;
      },
    };
  }

  cancel(): void {
    this.#abort.abort();
  }

  take(event: ExecutionEvent): void {
    this.output.take(event);
    if (event.type === 'stdout' || event.type === 'stderr') this.tell(event.text);
    if (event.type === 'progress') this.tell(`${event.task}: ${event.text}\n`);
  }

  /** What is told while nobody listens is for the next caller. */
  tell(text: string): void {
    if (this.#caller) this.#caller.tell(text);
    else this.#untold = (this.#untold + text).slice(-MOST_UNTOLD);
  }

  ask(form: ElicitRequestFormParams, signal?: AbortSignal): Promise<Answer> {
    return this.#questions.ask(form, signal);
  }

  /** What is to be done next: a question to be put, or the end. */
  async next(): Promise<Step> {
    for (;;) {
      if (this.#result) return { kind: 'done', result: this.#result };
      const question = this.#questions.first;
      if (question) return { kind: 'question', question };
      this.#changed = Promise.withResolvers();
      await this.#changed.promise;
    }
  }
}

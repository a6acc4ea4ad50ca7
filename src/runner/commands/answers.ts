/** The permissions of a query: written as lines, and answered by lines of the input. */

import type { PermissionAnswer, PermissionAsk } from '../../agents/contract.ts';
import { CellaError } from '../../protocol/errors.ts';
import { QueryInput, type QueryLine } from '../../protocol/runner-commands.ts';
import { check, type JsonOutput } from './io.ts';

export class Answers {
  readonly #output: JsonOutput;
  readonly #waiting = new Map<number, (answer: PermissionAnswer) => void>();
  #asked = 0;
  /** Why nobody answers any more. */
  #end: string | undefined;

  constructor(output: JsonOutput) {
    this.#output = output;
  }

  async ask(ask: PermissionAsk, signal: AbortSignal): Promise<PermissionAnswer> {
    if (this.#end !== undefined) return { allowed: false, reason: this.#end };
    const id = ++this.#asked;
    const answered = Promise.withResolvers<PermissionAnswer>();
    this.#waiting.set(id, answered.resolve);
    const stop = () => answered.resolve({ allowed: false, reason: 'The turn is being stopped.' });
    signal.addEventListener('abort', stop, { once: true });
    try {
      const { question, ...rest } = ask;
      const words = question && { text: question.text, ...(question.options && { options: [...question.options] }) };
      await this.#output.write({
        type: 'permission',
        id,
        ...rest,
        ...(words && { question: words }),
      } satisfies QueryLine);
      return await answered.promise;
    } finally {
      this.#waiting.delete(id);
      signal.removeEventListener('abort', stop);
    }
  }

  /** To the end of the input. INVALID_REQUEST for a line that is none. */
  async read(lines: AsyncGenerator<unknown>, onStop: () => void): Promise<void> {
    try {
      for await (const line of lines) {
        const said = check(QueryInput, line);
        if (said.type === 'stop') onStop();
        else this.#waiting.get(said.id)?.({ allowed: said.allowed, reason: said.reason, text: said.text });
      }
      this.#close('Nobody is there to be asked: the input has ended.');
    } catch (error) {
      this.#close(error instanceof CellaError ? error.message : 'Nobody is there to be asked: the input broke.');
      throw error;
    }
  }

  #close(why: string): void {
    this.#end = why;
    for (const answer of this.#waiting.values()) answer({ allowed: false, reason: why });
  }
}

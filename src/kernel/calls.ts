/** Calls of the code that wait for the host's reply: input() and getpass(). */

import { CellaError } from '../protocol/errors.ts';

export type Reply = { readonly value: string } | { readonly error: string };

export class Calls {
  readonly #send: (id: number, reply: Reply) => void;
  readonly #timers = new Map<number, NodeJS.Timeout | undefined>();

  constructor(send: (id: number, reply: Reply) => void) {
    this.#send = send;
  }

  get size(): number {
    return this.#timers.size;
  }

  has(id: number): boolean {
    return this.#timers.has(id);
  }

  /** `timeoutMs` 0 waits for ever. */
  add(id: number, timeoutMs = 0): void {
    const giveUp = () => this.reply(id, { error: `nobody answered within ${timeoutMs / 1000} s` });
    this.#timers.set(id, timeoutMs > 0 ? setTimeout(giveUp, timeoutMs) : undefined);
  }

  reply(id: number, reply: Reply): void {
    if (!this.#timers.has(id)) {
      throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    }
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#send(id, reply);
  }

  replyAll(reply: Reply): void {
    for (const id of [...this.#timers.keys()]) this.reply(id, reply);
  }

  /** Nobody is there to hear a reply any more. */
  forget(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}

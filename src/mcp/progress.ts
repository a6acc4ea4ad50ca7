/** Tells a client how a call goes on while it runs, as often as a client can use it, where it has asked to hear of it. */

import type { ServerContext } from '@modelcontextprotocol/server';

const AT_MOST_EVERY_MS = 200;
/** A sign of life, so that a client does not take long work for a hang. */
const AT_LEAST_EVERY_MS = 10_000;
const MOST_CHARACTERS = 2000;

export class Progress implements Disposable {
  readonly #context: ServerContext;
  readonly #token: string | number | undefined;
  readonly #began = performance.now();
  #waiting = '';
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #over = false;

  constructor(context: ServerContext) {
    this.#context = context;
    this.#token = context.mcpReq._meta?.progressToken;
    this.#wait(AT_LEAST_EVERY_MS);
  }

  tell(text: string): void {
    if (this.#token === undefined || this.#over) return;
    const first = this.#waiting === '';
    this.#waiting = (this.#waiting + text).slice(-MOST_CHARACTERS);
    if (first) this.#wait(this.#count === 0 ? 0 : AT_MOST_EVERY_MS);
  }

  /** Tells at once what waits to be told, and resolves when it is. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#sending;
    if (this.#waiting !== '') await this.#send();
  }

  [Symbol.dispose](): void {
    this.#over = true;
    clearTimeout(this.#timer);
  }

  #wait(milliseconds: number): void {
    if (this.#token === undefined || this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#send(), milliseconds);
  }

  async #send(): Promise<void> {
    // The one before waits for a slow reader.
    if (this.#sending || this.#token === undefined) return;
    const seconds = Math.round((performance.now() - this.#began) / 1000);
    const message = this.#waiting.toWellFormed() || `still running after ${seconds} s`;
    this.#waiting = '';
    this.#count++;
    const params = { progressToken: this.#token, progress: this.#count, message };
    // A client that is gone has ended the call, and with it the code.
    this.#sending = this.#context.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => {});
    await this.#sending;
    this.#sending = undefined;
    this.#wait(this.#waiting === '' ? AT_LEAST_EVERY_MS : AT_MOST_EVERY_MS);
  }
}

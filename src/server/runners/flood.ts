/** How much an executor may say in a while: more than any agent has to, and less than what would keep the server busy. */

import { CellaError } from '../../protocol/errors.ts';

const WINDOW_MS = 10_000;
const MOST_MESSAGES = 50_000;
const MOST_BYTES = 256 * 1024 * 1024;

export class FloodGuard {
  #since = performance.now();
  #messages = 0;
  #bytes = 0;

  /** RUNNER_PROTOCOL where it is too much. */
  count({ messages = 0, bytes = 0 }: { readonly messages?: number; readonly bytes?: number }): void {
    const now = performance.now();
    if (now - this.#since > WINDOW_MS) {
      this.#since = now;
      this.#messages = 0;
      this.#bytes = 0;
    }
    this.#messages += messages;
    this.#bytes += bytes;
    if (this.#messages <= MOST_MESSAGES && this.#bytes <= MOST_BYTES) return;
    throw new CellaError('RUNNER_PROTOCOL', 'The executor floods its connection with messages.', {
      details: { messages: this.#messages, bytes: this.#bytes },
    });
  }

  /** The same bytes, counted; it ends where they are too many. */
  async *counted(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of input) {
      this.count({ bytes: chunk.length });
      yield chunk;
    }
  }
}

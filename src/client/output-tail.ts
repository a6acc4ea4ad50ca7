/** The rest of an output that went to a file at the server: each read gives what has come since the last. */

import type { Backoff } from '../lib/backoff.ts';
import { chunksOf } from '../lib/line-splitter.ts';
import { CellaError } from '../protocol/errors.ts';
import type { OutputEvent } from '../protocol/execution-events.ts';

export type OutputReader = (file: string, offset: number) => Promise<Response>;

export class OutputTail {
  readonly #type: OutputEvent['type'];
  readonly #file: string;
  readonly #read: OutputReader;
  readonly #decoder = new TextDecoder();
  #offset = 0;

  constructor(type: OutputEvent['type'], file: string, read: OutputReader) {
    this.#type = type;
    this.#file = file;
    this.#read = read;
  }

  /** Gives whether that was all there is: where the connection breaks, another read goes on from there. */
  async *read(): AsyncGenerator<OutputEvent, boolean, undefined> {
    try {
      for await (const chunk of chunksOf(await this.#read(this.#file, this.#offset))) {
        this.#offset += chunk.byteLength;
        const text = this.#decoder.decode(chunk, { stream: true });
        if (text !== '') yield { type: this.#type, text };
      }
      return true;
    } catch (error) {
      if (error instanceof CellaError && error.code !== 'DAEMON_UNREACHABLE') throw error;
      return false;
    }
  }

  /** All that is left, however often the connection breaks. */
  async *rest(patience: Backoff): AsyncGenerator<OutputEvent, void, undefined> {
    while (!(yield* this.read())) {
      await patience.wait(new CellaError('DAEMON_UNREACHABLE', `The output ${this.#file} cannot be read.`));
    }
  }
}

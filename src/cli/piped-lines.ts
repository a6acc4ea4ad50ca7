/** Lines of a stdin that is no terminal. Nothing is read before the first line is asked for, and no line is lost. */

import type { Readable } from 'node:stream';
import type { Line, LineRequest, LineSource } from './lines.ts';

export class PipedLines implements LineSource {
  readonly #input: Readable;
  readonly #showPrompt: (prompt: string) => Promise<void>;
  readonly #decoder = new TextDecoder();
  #chunks: AsyncIterator<Uint8Array> | undefined;
  /** A chunk that was asked for and has not come: an aborted read leaves it to the next one. */
  #coming: Promise<IteratorResult<Uint8Array>> | undefined;
  #text = '';
  /** How much of the text is known to hold no line end. */
  #searched = 0;
  #ended = false;

  constructor(input: Readable, showPrompt: (prompt: string) => Promise<void>) {
    this.#input = input;
    this.#showPrompt = showPrompt;
  }

  async read({ prompt, signal }: LineRequest): Promise<Line> {
    if (prompt !== '') await this.#showPrompt(prompt);
    for (;;) {
      const line = this.#take();
      if (line !== undefined) return { kind: 'line', text: line };
      if (this.#ended) return { kind: 'end' };
      const chunk = await this.#nextChunk(signal);
      if (chunk === 'aborted') return { kind: 'aborted' };
      this.#ended = chunk.done === true;
      this.#text += chunk.done
        ? this.#decoder.decode()
        : this.#decoder.decode(Buffer.from(chunk.value), { stream: true });
    }
  }

  close(): void {
    this.#ended = true;
    this.#text = '';
    if (this.#chunks) this.#input.destroy();
  }

  #take(): string | undefined {
    const end = this.#text.indexOf('\n', this.#searched);
    if (end < 0 && (!this.#ended || this.#text === '')) {
      this.#searched = this.#text.length;
      return undefined;
    }
    const line = end < 0 ? this.#text : this.#text.slice(0, end);
    this.#text = end < 0 ? '' : this.#text.slice(end + 1);
    this.#searched = 0;
    return line.endsWith('\r') ? line.slice(0, -1) : line;
  }

  async #nextChunk(signal: AbortSignal | undefined): Promise<IteratorResult<Uint8Array> | 'aborted'> {
    if (signal?.aborted) return 'aborted';
    this.#chunks ??= this.#input[Symbol.asyncIterator]();
    // A stdin that cannot be read, or was destroyed, has no more lines.
    this.#coming ??= this.#chunks.next().catch((): IteratorResult<Uint8Array> => ({ done: true, value: undefined }));
    const aborted = Promise.withResolvers<'aborted'>();
    const abort = () => aborted.resolve('aborted');
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const chunk = await Promise.race([this.#coming, aborted.promise]);
      if (chunk !== 'aborted') this.#coming = undefined;
      return chunk;
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }
}

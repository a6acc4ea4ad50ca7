/** Reads the usage from an answer's messages as they pass. */

import { readMessages } from './providers/anthropic.ts';
import { readGemini } from './providers/gemini.ts';
import { readChat, readResponses } from './providers/openai.ts';
import type { ApiFormat, Finality, ReadMessage, TextPiece, TokenCounts } from './providers/provider.ts';

const readers: Readonly<Record<ApiFormat, ReadMessage>> = {
  messages: readMessages,
  responses: readResponses,
  chat: readChat,
  gemini: readGemini,
  free: () => ({ last: 'final' }),
};

/** Few characters per token, so that the estimate is too high rather than too low. */
const CHARACTERS_PER_TOKEN = 3;

interface UsageReading {
  readonly counts: TokenCounts;
  /** The provider's name of the model. */
  readonly model: string | undefined;
  /** Which counts the provider has reported. */
  readonly reported: { readonly input: boolean; readonly output: boolean };
}

export class ResponseUsageReader {
  readonly #read: ReadMessage;
  #counts: Partial<TokenCounts> = {};
  #model: string | undefined;
  #characters = 0;
  #last: Finality | undefined;
  #ended = false;

  constructor(format: ApiFormat) {
    this.#read = readers[format];
  }

  /** Reads one message of a stream, or a whole answer. Returns what the model wrote in it. */
  read(message: unknown): readonly TextPiece[] {
    const texts: TextPiece[] = [];
    for (const each of Array.isArray(message) ? message : [message]) {
      const said = this.#read(each);
      this.#counts = { ...this.#counts, ...said?.counts };
      this.#model = said?.model ?? this.#model;
      texts.push(...(said?.texts ?? []));
      this.#see(said?.last);
    }
    for (const { text } of texts) this.#characters += text.length;
    return texts;
  }

  /** Some streams end with a marker. */
  done(): void {
    this.#see('final');
  }

  /** Call it at the end of the answer. Returns true if the answer ended properly in the provider's format. */
  end(): boolean {
    this.#ended = this.#last !== undefined;
    return this.#ended;
  }

  /** Whether the answer is complete, even if its connection is still open. */
  get isOver(): boolean {
    return this.#ended || this.#last === 'final';
  }

  /** `unreported`: the estimate to use if the provider reports nothing. */
  reading(unreported: Pick<TokenCounts, 'input' | 'output'>): UsageReading {
    const { input, output, cacheRead = 0, cacheWrite = 0 } = this.#counts;
    const final = this.#last === 'final' || (this.#last === 'final-if-last' && this.#ended);
    const reported = { input: input !== undefined, output: final && output !== undefined };
    const written = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN);
    const counts = {
      input: input ?? unreported.input,
      // If a stream broke off, the reported count is only the initial one.
      output: reported.output && output !== undefined ? output : Math.max(output ?? 0, written, unreported.output),
      ...{ cacheRead, cacheWrite },
    };
    return { counts, model: this.#model, reported };
  }

  /** A later message cannot take back a final one. */
  #see(last: Finality | undefined): void {
    if (this.#last === undefined || this.#last === 'final-if-last') this.#last = last ?? this.#last;
  }
}

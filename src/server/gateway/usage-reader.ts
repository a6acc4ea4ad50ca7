/** Reads what was used from the messages of an answer as they pass. */

import { readMessages } from './providers/anthropic.ts';
import { readGemini } from './providers/gemini.ts';
import { readChat, readResponses } from './providers/openai.ts';
import type { ApiFormat } from './providers/provider.ts';
import type { Finality, ReadMessage, TokenCounts } from './usage-report.ts';

const readers: Readonly<Record<ApiFormat, ReadMessage>> = {
  messages: readMessages,
  responses: readResponses,
  chat: readChat,
  gemini: readGemini,
  free: () => ({ last: 'final' }),
};

/** A little more than most texts have, so that it is rather too much than too little. */
const CHARACTERS_PER_TOKEN = 3;

export interface UsageReading {
  readonly counts: TokenCounts;
  /** As the provider named it. */
  readonly model: string | undefined;
  /** Whether the provider has reported it. */
  readonly reported: { readonly input: boolean; readonly output: boolean };
}

export class ResponseUsageReader {
  readonly #read: ReadMessage;
  #counts: Partial<TokenCounts> = {};
  #model: string | undefined;
  #characters = 0;
  #last: Finality | undefined;
  #ended = false;

  constructor(wire: ApiFormat) {
    this.#read = readers[wire];
  }

  /** One message of a stream, or all of an answer that is none. Gives what the model has written in it. */
  read(message: unknown): string {
    let text = '';
    for (const each of Array.isArray(message) ? message : [message]) {
      const said = this.#read(each);
      this.#counts = { ...this.#counts, ...said?.counts };
      this.#model = said?.model ?? this.#model;
      text += said?.text ?? '';
      this.#see(said?.last);
    }
    this.#characters += text.length;
    return text;
  }

  /** The mark with which some streams end. */
  done(): void {
    this.#see('final');
  }

  /** Nothing follows. True where the answer came to an end as this provider ends one. */
  end(): boolean {
    this.#ended = this.#last !== undefined;
    return this.#ended;
  }

  /** Whether the answer is complete, even if its connection is still open. */
  get isOver(): boolean {
    return this.#ended || this.#last === 'final';
  }

  /** `unreported`: what the call may have come to, where the provider reports nothing. */
  reading(unreported: Pick<TokenCounts, 'input' | 'output'>): UsageReading {
    const { input, output, cacheRead = 0, cacheWrite = 0 } = this.#counts;
    const final = this.#last === 'final' || (this.#last === 'final-if-last' && this.#ended);
    const reported = { input: input !== undefined, output: final && output !== undefined };
    const written = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN);
    const counts = {
      input: input ?? unreported.input,
      // Where a stream broke off, its count is that of the beginning.
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

/** Reads what was used from an answer as it passes, in bounded memory, whatever the answer is. */

import type { Wire } from './doors.ts';
import { readChat } from './wires/chat.ts';
import { readGemini } from './wires/gemini.ts';
import { readMessages } from './wires/messages.ts';
import { readResponses } from './wires/responses.ts';
import type { Counts, Last, ReadMessage } from './wires/tally.ts';

const readers: Readonly<Record<Wire, ReadMessage>> = {
  messages: readMessages,
  responses: readResponses,
  chat: readChat,
  gemini: readGemini,
  free: () => ({ last: 'told' }),
};

/** The last event of OpenAI's holds the whole answer once more. */
const MOST_BYTES = 32 * 1024 * 1024;
const NEWLINE = 0x0a;
/** A little more than most texts have, so that it is rather too much than too little. */
const CHARACTERS_PER_TOKEN = 3;

export interface Reading {
  readonly counts: Counts;
  /** As the provider named it. */
  readonly model: string | undefined;
  /** Whether the provider has told it. */
  readonly told: { readonly input: boolean; readonly output: boolean };
}

export class UsageReader {
  readonly #read: ReadMessage;
  readonly #streamed: boolean;
  #waiting: Buffer[] = [];
  #size = 0;
  #counts: Partial<Counts> = {};
  #model: string | undefined;
  #characters = 0;
  #last: Last | undefined;
  #ended = false;

  constructor(wire: Wire, streamed: boolean) {
    this.#read = readers[wire];
    this.#streamed = streamed;
  }

  push(chunk: Buffer): void {
    let from = 0;
    if (this.#streamed) {
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
        this.#keep(chunk.subarray(from, end));
        this.#line();
        from = end + 1;
      }
    }
    this.#keep(chunk.subarray(from));
  }

  /** Whether the end of a line has not passed yet. */
  get isInLine(): boolean {
    return this.#size > 0;
  }

  /** Nothing follows. True where the answer came to an end as this provider ends one. */
  end(): boolean {
    this.#line();
    this.#ended = this.#last !== undefined;
    return this.#ended;
  }

  /** Whether the answer has come to its end, also where that of its connection was not waited for. */
  get isOver(): boolean {
    return this.#ended || this.#last === 'told';
  }

  /** `untold`: what the call may have come to, in the place of what the provider does not tell. */
  reading(untold: Pick<Counts, 'input' | 'output'>): Reading {
    const { input, output, cacheRead = 0, cacheWrite = 0 } = this.#counts;
    const final = this.#last === 'told' || (this.#last === 'perhaps' && this.#ended);
    const told = { input: input !== undefined, output: final && output !== undefined };
    const written = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN);
    const counts = {
      input: input ?? untold.input,
      // Where a stream broke off, its count is that of the beginning.
      output: told.output && output !== undefined ? output : Math.max(output ?? 0, written, untold.output),
      ...{ cacheRead, cacheWrite },
    };
    return { counts, model: this.#model, told };
  }

  #keep(bytes: Buffer): void {
    this.#size += bytes.length;
    if (this.#size > MOST_BYTES) this.#waiting = [];
    else if (bytes.length > 0) this.#waiting.push(bytes);
  }

  #line(): void {
    const text = this.#size > MOST_BYTES ? '' : Buffer.concat(this.#waiting).toString('utf8').trim();
    this.#waiting = [];
    this.#size = 0;
    if (!this.#streamed) this.#message(text);
    else if (text.startsWith('data:')) this.#data(text.slice('data:'.length).trim());
  }

  #data(data: string): void {
    if (data === '[DONE]') this.#see('told');
    else this.#message(data);
  }

  #message(json: string): void {
    let message: unknown;
    try {
      message = JSON.parse(json);
    } catch {
      return; // what is no JSON says nothing of what was used
    }
    for (const each of Array.isArray(message) ? message : [message]) {
      const said = this.#read(each);
      this.#counts = { ...this.#counts, ...said?.counts };
      this.#model = said?.model ?? this.#model;
      this.#characters += said?.characters ?? 0;
      this.#see(said?.last);
    }
  }

  /** What comes after the last one takes nothing back. */
  #see(last: Last | undefined): void {
    if (this.#last === undefined || this.#last === 'perhaps') this.#last = last ?? this.#last;
  }
}

/** Reads what was used from an answer as it passes, in bounded memory, whatever the answer is. */

import type { Wire } from './doors.ts';
import { readChat } from './wires/chat.ts';
import { readGemini } from './wires/gemini.ts';
import { readMessages } from './wires/messages.ts';
import { readResponses } from './wires/responses.ts';
import type { Counts, ReadMessage } from './wires/tally.ts';

const readers: Readonly<Record<Wire, ReadMessage>> = {
  messages: readMessages,
  responses: readResponses,
  chat: readChat,
  gemini: readGemini,
  free: () => ({ last: true }),
};

/** The last event of OpenAI's holds the whole answer once more. */
const MOST_BYTES = 32 * 1024 * 1024;
const NEWLINE = 0x0a;
const CHARACTERS_PER_TOKEN = 4;

export interface Reading {
  readonly counts: Counts;
  /** As the provider named it. */
  readonly model: string | undefined;
  /** Whether the provider has not told all of it. */
  readonly estimated: boolean;
}

export class UsageReader {
  readonly #read: ReadMessage;
  readonly #streamed: boolean;
  #waiting: Buffer[] = [];
  #size = 0;
  #counts: Partial<Counts> = {};
  #model: string | undefined;
  #characters = 0;
  #whole = false;

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

  /** True where the answer came to an end as this provider ends one. */
  end(): boolean {
    this.#line();
    return this.#whole;
  }

  /** What is not told is estimated by the size of what went in and of what came out. */
  reading(bodyBytes: number): Reading {
    const { input, output, cacheRead = 0, cacheWrite = 0 } = this.#counts;
    const written = Math.ceil(this.#characters / CHARACTERS_PER_TOKEN);
    const counts = {
      input: input ?? Math.ceil(bodyBytes / CHARACTERS_PER_TOKEN),
      // Where a stream broke off, its count is that of the beginning.
      output: this.#whole && output !== undefined ? output : Math.max(output ?? 0, written),
      ...{ cacheRead, cacheWrite },
    };
    return { counts, model: this.#model, estimated: !this.#whole || input === undefined || output === undefined };
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
    if (data === '[DONE]') this.#whole = true;
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
      this.#whole ||= said?.last ?? false;
    }
  }
}

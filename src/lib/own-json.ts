/** Parses JSON that Cella itself wrote, in slices, so that a large text does not block the event loop. */

import { inTurns } from './event-loop.ts';
import { setEntry } from './values.ts';

/** Texts of up to this many bytes are parsed in one step. */
const SMALL = 128 * 1024;
/** How many bytes of a long string are read at a time. */
const SLICE = 64 * 1024;
/** How many parts are read before other work may run. */
const PARTS = 500;

/** Trusts the grammar of a large text without checking it. */
export async function parseOwnJson(text: Buffer, small = SMALL): Promise<unknown> {
  if (text.length <= small) return JSON.parse(text.toString());
  return await inTurns(new OwnJsonReader(text).value());
}

const [QUOTE, BACKSLASH, LETTER_U, COMMA, OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [
  ...Buffer.from('"\\u,[]{}'),
];

class OwnJsonReader {
  readonly #text: Buffer;
  #at = 0;
  #parts = 0;

  constructor(text: Buffer) {
    this.#text = text;
  }

  /** Yields where other work may run. */
  *value(): Generator<undefined, unknown> {
    if (++this.#parts % PARTS === 0) yield;
    const first = this.#text[this.#at];
    if (first === QUOTE) return yield* this.#string();
    if (first === OPEN_LIST) {
      const items: unknown[] = [];
      while (this.#hasNext(CLOSE_LIST)) items.push(yield* this.value());
      return items;
    }
    if (first === OPEN_OBJECT) {
      const dict: Record<string, unknown> = {};
      while (this.#hasNext(CLOSE_OBJECT)) {
        const name = yield* this.#string();
        this.#at += 1;
        setEntry(dict, name, yield* this.value());
      }
      return dict;
    }
    const from = this.#at;
    while (this.#at < this.#text.length && !this.#isEnd()) this.#at += 1;
    return JSON.parse(this.#text.toString('latin1', from, this.#at));
  }

  /** Moves past the bracket or comma before the next item, or past the closing bracket. */
  #hasNext(close: number | undefined): boolean {
    const isFirst = this.#text[this.#at] !== COMMA && this.#text[this.#at] !== close;
    this.#at += 1;
    if (!isFirst) return this.#text[this.#at - 1] !== close;
    if (this.#text[this.#at] !== close) return true;
    this.#at += 1;
    return false;
  }

  *#string(): Generator<undefined, string> {
    const slices: string[] = [];
    let from = this.#at + 1;
    for (let at = from; ; ) {
      const byte = this.#text[at];
      const ends = byte === QUOTE || byte === undefined;
      // Never cuts a character or an escape. Surrogates written as two escapes rejoin when the slices do.
      if (ends || (at - from >= SLICE && (byte & 0xc0) !== 0x80)) {
        slices.push(JSON.parse(`"${this.#text.toString('utf8', from, at)}"`));
        from = at;
        this.#at = at + 1;
        if (ends) return slices.length === 1 ? (slices[0] ?? '') : slices.join('');
        yield;
      }
      at += byte !== BACKSLASH ? 1 : this.#text[at + 1] === LETTER_U ? 6 : 2;
    }
  }

  #isEnd(): boolean {
    const byte = this.#text[this.#at];
    return byte === COMMA || byte === CLOSE_LIST || byte === CLOSE_OBJECT;
  }
}

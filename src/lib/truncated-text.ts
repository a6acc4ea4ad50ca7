/** Keeps the beginning and the end of a text stream, and counts what it drops in between. */

/** Small texts are joined into pieces of about this many characters. */
const PIECE = 16 * 1024;
/** A limit spans at least this many pieces, so that cutting a piece copies few characters. */
const LEAST_PIECES = 128;

/** A text in pieces. Tiny pieces would take many times their size in memory, and a long list of them is slow to shorten. */
class Pieces {
  readonly #piece: number;
  readonly #whole: string[] = [];
  #small: string[] = [];
  #smallLength = 0;
  length = 0;

  constructor(piece: number) {
    this.#piece = piece;
  }

  add(text: string): void {
    if (text === '') return;
    this.#small.push(text);
    this.#smallLength += text.length;
    this.length += text.length;
    if (this.#smallLength >= this.#piece) this.#join();
  }

  get first(): string {
    if (this.#whole.length === 0) this.#join();
    return this.#whole[0] ?? '';
  }

  /** Drops the beginning of the first piece, or all of it. */
  cut(count: number): void {
    const { first } = this;
    if (count < first.length) this.#whole[0] = first.slice(count);
    else this.#whole.shift();
    this.length -= Math.min(count, first.length);
  }

  get text(): string {
    return this.#whole.join('') + this.#small.join('');
  }

  #join(): void {
    if (this.#small.length > 0) this.#whole.push(this.#small.join(''));
    this.#small = [];
    this.#smallLength = 0;
  }
}

export class TruncatedText {
  readonly #headLimit: number;
  readonly #tailLimit: number;
  readonly #head: Pieces;
  readonly #tail: Pieces;
  #cut = 0;
  #cutCharacters = 0;

  /** `limit` counts characters, which are bytes in ASCII text. `head` of them are for the beginning, by default half. */
  constructor(limit: number, { head = Math.ceil(limit / 2) } = {}) {
    this.#headLimit = head;
    this.#tailLimit = limit - head;
    const piece = Math.min(PIECE, Math.ceil(limit / LEAST_PIECES));
    this.#head = new Pieces(piece);
    this.#tail = new Pieces(piece);
  }

  push(text: string): void {
    const room = this.#tail.length === 0 && this.#cut === 0 ? this.#headLimit - this.#head.length : 0;
    this.#head.add(text.slice(0, room));
    if (text.length <= room) return;
    this.#tail.add(text.slice(room));
    this.#shrink(this.#tailLimit);
  }

  #shrink(room: number): void {
    while (this.#tail.length > room) {
      const { first } = this.#tail;
      const over = this.#tail.length - room;
      // Cut a long piece only when it is far over the limit, so that small pieces behind it do not cut it each time.
      if (first.length > over && over < 65_536 && room >= 65_536) return;
      this.#cut += Buffer.byteLength(first.length > over ? first.slice(0, over) : first);
      this.#cutCharacters += Math.min(over, first.length);
      this.#tail.cut(over);
    }
  }

  /** Characters that are kept. */
  get length(): number {
    return this.#head.length + this.#tail.length;
  }

  /** How many bytes the text leaves out. */
  get cutBytes(): number {
    return this.#cut;
  }

  get cutCharacters(): number {
    return this.#cutCharacters;
  }

  /** What is kept: all of the text, or its beginning and its end. */
  get parts(): [head: string, tail: string] {
    return [this.#head.text, this.#tail.text];
  }

  get text(): string {
    const [head, tail] = this.parts;
    return this.#cut === 0 ? head + tail : `${head}\n… ${this.#cut} bytes left out …\n${tail}`;
  }

  /** The last characters, such as for the last output of a process that died. */
  end(count: number): string {
    return (this.#head.text + this.#tail.text).slice(-count);
  }
}

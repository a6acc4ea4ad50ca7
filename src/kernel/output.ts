/**
 * One output stream of a kernel: bytes to text, and the signs in it that say where text belongs.
 *
 * The kernel writes the execution's mark into the stream where a frame belongs. What comes before a mark is delivered
 * before that frame, what comes after it waits until the frame is handled. Text of an execution that is over comes in
 * labelled pieces between the rest.
 */

import { StringDecoder } from 'node:string_decoder';
import type { ByteSource } from './link.ts';
import { MARK_BYTES } from './mark.ts';
import { type Labelled, nextSign, pieceAt } from './signs.ts';

const NOTHING = Buffer.alloc(0);

export class OutputStream {
  readonly #source: ByteSource;
  readonly #deliver: (text: string, owner?: number) => boolean;
  readonly #onChange: () => void;
  readonly #decoder = new StringDecoder('utf8');
  readonly #over = Promise.withResolvers<void>();
  #opened = false;
  #mark: Buffer | undefined;
  #label: Uint8Array | undefined;
  #pending: Buffer = NOTHING;
  #seen = 0;
  #released = 0;
  #paused = false;
  #ended = false;
  #working = false;

  /**
   * `deliver` answers whether to go on reading, and gets the number that a label names; `onChange` is told of every mark
   * and of the end.
   */
  constructor(source: ByteSource, deliver: (text: string, owner?: number) => boolean, onChange: () => void) {
    this.#source = source;
    this.#deliver = deliver;
    this.#onChange = onChange;
    source.read(
      (chunk) => this.#feed(chunk),
      () => this.#end(),
    );
  }

  /** Nothing is delivered before it. */
  open(label?: Uint8Array): void {
    if (this.#opened) return;
    this.#opened = true;
    this.#label = label;
    this.#goOn();
  }

  begin(mark: Buffer): void {
    this.#mark = mark;
    this.#seen = 0;
    this.#released = 0;
  }

  /** Whether everything before the kernel's `count`-th mark is delivered, or where it needed no mark, all that was read. */
  reached(count: number): boolean {
    const held = this.#paused && this.#pending.length > 0;
    return this.#ended || (this.#seen >= count && !held);
  }

  /** Whether it stands still because its reader is slow. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Resolves when nothing more will come. */
  get end(): Promise<void> {
    return this.#over.promise;
  }

  /** The frame that belongs to the `count`-th mark is handled: what follows the mark may come. */
  release(count: number): void {
    this.#seen = Math.max(this.#seen, count);
    this.#released = Math.max(this.#released, count);
    this.#goOn();
  }

  resume(): void {
    this.#paused = false;
    this.#goOn();
  }

  /** The execution is over: half a character, or what looked like the start of a mark, is text after all. */
  finish(): void {
    this.#mark = undefined;
    this.#released = this.#seen;
    this.#paused = false;
    this.#goOn();
    const rest = this.#decoder.end();
    if (rest) this.#deliver(rest);
  }

  close(): void {
    this.#source.close();
  }

  #goOn(): void {
    if (!this.#working && this.#process()) this.#source.resume();
  }

  /** Returns whether to go on reading. The chunk is only lent. */
  #feed(chunk: Buffer): boolean {
    this.#pending = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    const more = this.#process();
    this.#pending = this.#pending.length > 0 ? Buffer.from(this.#pending) : NOTHING;
    return more;
  }

  get #held(): boolean {
    return !this.#opened || this.#paused || this.#seen > this.#released;
  }

  #process(): boolean {
    this.#working = true;
    while (!this.#held && this.#pending.length > 0) {
      const bytes = this.#pending;
      const sign = nextSign(bytes, this.#mark, this.#label);
      // Where nothing more comes, what looked like the beginning of a sign is text after all.
      const at = !sign || (this.#ended && sign.kind === 'part') ? bytes.length : sign.at;
      this.#pending = bytes.subarray(at);
      this.#text(this.#decoder.write(bytes.subarray(0, at)));
      if (sign?.kind === 'mark') this.#pass(bytes.subarray(at + MARK_BYTES));
      else if (sign?.kind === 'labelled' && !this.#held) this.#unwrap(bytes, sign);
      else break;
    }
    this.#working = false;
    return !this.#held;
  }

  #pass(rest: Buffer): void {
    this.#pending = rest;
    this.#seen++;
    // The kernel may handle the frame of this mark right here, and so move `released` on.
    this.#onChange();
  }

  /** Pieces that follow one another are one text: a line is often written in two. */
  #unwrap(bytes: Buffer, first: Labelled): void {
    const { owner } = first;
    let text = bytes.toString('utf8', first.begin, first.end);
    let { end } = first;
    for (let next = this.#pieceAt(bytes, end); next?.owner === owner; next = this.#pieceAt(bytes, end)) {
      text += bytes.toString('utf8', next.begin, next.end);
      end = next.end;
    }
    this.#pending = bytes.subarray(end);
    this.#text(text, owner);
  }

  #pieceAt(bytes: Buffer, at: number): Labelled | undefined {
    const sign = this.#label && pieceAt(bytes, at, this.#label);
    return sign?.kind === 'labelled' ? sign : undefined;
  }

  #text(text: string, owner?: number): void {
    if (text.length > 0 && !this.#deliver(text, owner)) this.#paused = true;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#goOn();
    this.#over.resolve();
    this.#onChange();
  }
}

/**
 * One output stream of a kernel: bytes to text, and the marks that put it in order with frames.
 *
 * The kernel writes the execution's mark into the stream where a frame belongs. What comes before a mark is delivered
 * before that frame, what comes after it waits until the frame is handled.
 */

import { StringDecoder } from 'node:string_decoder';
import type { ByteSource } from './link.ts';
import { MARK_BYTES } from './mark.ts';

const NOTHING = Buffer.alloc(0);

export class OutputStream {
  readonly #source: ByteSource;
  readonly #deliver: (text: string) => boolean;
  readonly #onChange: () => void;
  readonly #decoder = new StringDecoder('utf8');
  readonly #over = Promise.withResolvers<void>();
  #mark: Buffer | undefined;
  #pending: Buffer = NOTHING;
  #seen = 0;
  #released = 0;
  #paused = false;
  #ended = false;
  #working = false;

  /** `deliver` answers whether to go on reading; `onChange` is told of every mark and of the end. */
  constructor(source: ByteSource, deliver: (text: string) => boolean, onChange: () => void) {
    this.#source = source;
    this.#deliver = deliver;
    this.#onChange = onChange;
    source.read(
      (chunk) => this.#feed(chunk),
      () => this.#end(),
    );
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

  #process(): boolean {
    this.#working = true;
    while (!this.#paused && this.#seen <= this.#released && this.#pending.length > 0) {
      const bytes = this.#pending;
      const at = this.#mark ? bytes.indexOf(this.#mark) : -1;
      if (at < 0) {
        const whole = bytes.length - (this.#mark ? partialMark(bytes, this.#mark) : 0);
        this.#pending = bytes.subarray(whole);
        this.#text(bytes.subarray(0, whole));
        break;
      }
      this.#pending = bytes.subarray(at + MARK_BYTES);
      this.#text(bytes.subarray(0, at));
      this.#seen++;
      // The kernel may handle the frame of this mark right here, and so move `released` on.
      this.#onChange();
    }
    this.#working = false;
    return !this.#paused && this.#seen <= this.#released;
  }

  #text(bytes: Buffer): void {
    const text = this.#decoder.write(bytes);
    if (text.length > 0 && !this.#deliver(text)) this.#paused = true;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#over.resolve();
    this.#onChange();
  }
}

/** How many bytes at the end may be the beginning of a mark. */
function partialMark(bytes: Buffer, mark: Buffer): number {
  const first = mark[0] as number;
  for (let at = Math.max(0, bytes.length - mark.length + 1); at < bytes.length; at++) {
    if (bytes[at] === first && bytes.compare(mark, 0, bytes.length - at, at) === 0) return bytes.length - at;
  }
  return 0;
}

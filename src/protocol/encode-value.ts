/** Values for a kernel: the same part of marshal version 2 that kernels send, see values.ts. */

import { PyObject, type PyValue } from './py-values.ts';
import { MOST_UNIT_BYTES, writeText } from './values.ts';

const INT32 = 2 ** 31;
const DIGIT_BITS = 15;
const DIGIT = 2 ** DIGIT_BITS - 1;
/** What one step writes: a part is an item of a list, a key of a dict or a piece of a long text. */
const STEP_PARTS = 2000;
const STEP_BYTES = 128 * 1024;
/** Of a long text, in one step. */
const PIECE = 32 * 1024;
const FIRST_BYTES = 256;

/** Whole numbers become ints: JavaScript does not tell `1.0` from `1`. */
export function encodeValue(value: PyValue): Buffer {
  const encoder = new ValueEncoder(value);
  while (!encoder.step());
  return encoder.bytes;
}

/** What is begun and has parts that are not written yet. */
type Open =
  | { readonly kind: 'list'; readonly list: readonly PyValue[]; at: number }
  | { readonly kind: 'dict'; readonly dict: { [name: string]: PyValue }; readonly names: readonly string[]; at: number }
  | { readonly kind: 'text'; readonly text: string; readonly lengthAt: number; at: number };

/** Writes a value step by step, so that whoever writes a large one can do something else in between. */
export class ValueEncoder {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  readonly #open: Open[] = [];

  constructor(value: PyValue) {
    this.#write(value);
  }

  /** Writes some of the value. True when all of it is written. */
  step(): boolean {
    const until = this.#length + STEP_BYTES;
    for (let left = STEP_PARTS; left > 0 && this.#length < until; left--) {
      const open = this.#open.at(-1);
      if (open === undefined) return true;
      if (open.kind === 'list') this.#nextItem(open);
      else if (open.kind === 'dict') this.#nextEntry(open);
      else this.#nextPiece(open);
    }
    return this.#open.length === 0;
  }

  /** How many bytes there are so far. */
  get length(): number {
    return this.#length;
  }

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #write(value: PyValue): void {
    if (value === null) this.#letter('N');
    else if (typeof value === 'boolean') this.#letter(value ? 'T' : 'F');
    else if (typeof value === 'string') this.#text(value);
    else if (typeof value === 'bigint') this.#long(value);
    else if (typeof value === 'number') this.#number(value);
    else if (value instanceof Uint8Array) this.#binary(value);
    else if (value instanceof PyObject) this.#text(value.repr);
    else if (Array.isArray(value)) {
      this.#letter('[');
      this.#int32(value.length);
      this.#open.push({ kind: 'list', list: value, at: 0 });
    } else {
      this.#letter('{');
      this.#open.push({ kind: 'dict', dict: value, names: Object.keys(value), at: 0 });
    }
  }

  #nextItem(open: Open & { kind: 'list' }): void {
    if (open.at < open.list.length) this.#write(open.list[open.at++] as PyValue);
    else this.#open.pop();
  }

  #nextEntry(open: Open & { kind: 'dict' }): void {
    const name = open.names[Math.floor(open.at / 2)];
    if (name === undefined) {
      this.#letter('0');
      this.#open.pop();
    } else if (open.at++ % 2 === 0) this.#text(name);
    else this.#write(open.dict[name] as PyValue);
  }

  /** A pair of surrogates stays together. */
  #nextPiece(open: Open & { kind: 'text' }): void {
    const { text, lengthAt, at } = open;
    let end = Math.min(text.length, at + PIECE);
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++;
    this.#units(text.slice(at, end));
    open.at = end;
    if (end < text.length) return;
    this.#buffer.writeInt32LE(this.#length - lengthAt - 4, lengthAt);
    this.#open.pop();
  }

  #text(text: string): void {
    this.#letter('u');
    const lengthAt = this.#length;
    this.#int32(0);
    if (text.length > PIECE) {
      this.#open.push({ kind: 'text', text, lengthAt, at: 0 });
      return;
    }
    this.#units(text);
    this.#buffer.writeInt32LE(this.#length - lengthAt - 4, lengthAt);
  }

  #units(text: string): void {
    this.#room(MOST_UNIT_BYTES * text.length);
    this.#length = writeText(text, this.#buffer, this.#length);
  }

  #binary(bytes: Uint8Array): void {
    this.#letter('s');
    this.#int32(bytes.length);
    this.#room(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #number(value: number): void {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
      this.#letter('g');
      this.#room(8);
      this.#length = this.#buffer.writeDoubleLE(value, this.#length);
    } else if (value >= -INT32 && value < INT32) {
      this.#letter('i');
      this.#int32(value);
    } else this.#long(BigInt(value));
  }

  /** Digits of 15 bits, lowest first; a negative count is a negative number. */
  #long(value: bigint): void {
    // Through hexadecimal text, which is linear, where shifting would be quadratic.
    const letters = (value < 0n ? -value : value).toString(16);
    const digits: number[] = [];
    let [gathered, bits] = [0, 0];
    for (let at = letters.length - 1; at >= 0; at--) {
      gathered |= Number.parseInt(letters[at] as string, 16) << bits;
      bits += 4;
      if (bits < DIGIT_BITS) continue;
      digits.push(gathered & DIGIT);
      gathered >>>= DIGIT_BITS;
      bits -= DIGIT_BITS;
    }
    if (gathered > 0) digits.push(gathered);
    while (digits.at(-1) === 0) digits.pop();
    this.#letter('l');
    this.#int32(value < 0n ? -digits.length : digits.length);
    this.#room(2 * digits.length);
    for (const digit of digits) this.#length = this.#buffer.writeUInt16LE(digit, this.#length);
  }

  #letter(letter: string): void {
    this.#room(1);
    this.#buffer[this.#length++] = letter.charCodeAt(0);
  }

  #int32(value: number): void {
    this.#room(4);
    this.#length = this.#buffer.writeInt32LE(value, this.#length);
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#buffer.length));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

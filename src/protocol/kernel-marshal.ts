/** Python values between host and kernel: the part of marshal version 2 that both sides use, read with every length checked. */

import { setEntry } from '../lib/values.ts';
import { FrameError, KernelLimit } from './kernel-frames.ts';
import { PyObject, type PyValue } from './py-values.ts';

/** A frame adds levels of its own around a value. */
const DEEPEST = 2 * KernelLimit.deepestValue;
const FEW_DIGITS = 3;
/** Of the digits above those. */
const FEW_WEIGHT = 2 ** 45;
/** What a frame contains in addition to the value. */
const ENVELOPE_ITEMS = 1000;
const DIGIT_BITS = 15;
const MOST_DIGITS = Math.ceil((KernelLimit.mostIntegerDigits * Math.log2(10)) / DIGIT_BITS);
const ITEM_DIGITS = KernelLimit.integerItemBits / DIGIT_BITS;
const SHORT_TEXT = 64;

/** Reads one value that fills `bytes` exactly; anything else throws a FrameError. */
export function decodeValue(bytes: Buffer): PyValue {
  return decodeCounted(bytes).value;
}

/** The same, and the number of items of lists and keys of dicts in the value. */
export function decodeCounted(bytes: Buffer): { readonly value: PyValue; readonly items: number } {
  const reader = new MarshalReader(bytes);
  const value = reader.value(0);
  if (reader.offset !== bytes.length) throw new FrameError('bytes are left after a value');
  return { value, items: reader.items };
}

class MarshalReader {
  offset = 0;
  items = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  value(depth: number): PyValue {
    if (depth > DEEPEST) throw new FrameError('a value is nested too deeply');
    const type = this.#byte();
    switch (type) {
      case 0x4e: // N
        return null;
      case 0x54: // T
        return true;
      case 0x46: // F
        return false;
      case 0x69: // i
        return this.#int32();
      case 0x6c: // l
        return this.#long();
      case 0x67: // g
        return this.#double();
      case 0x73: // s
        return new Uint8Array(this.#take(this.#size()));
      case 0x75: // u
        return this.#text();
      case 0x5b: // [
      case 0x28: // (
        return this.#list(depth);
      case 0x7b: // {
        return this.#dict(depth);
      case 0x3c: // <
        return this.#opaque(depth);
      default:
        throw new FrameError(`a value of the unknown type ${type}`);
    }
  }

  /** A limit on bytes alone limits neither the memory of a value nor the time to read it. */
  #count(items: number): void {
    this.items += items;
    if (this.items > KernelLimit.mostValueItems + ENVELOPE_ITEMS) throw new FrameError('a value of too many items');
  }

  #byte(): number {
    const byte = this.#bytes[this.offset];
    if (byte === undefined) throw new FrameError('a value ends too early');
    this.offset++;
    return byte;
  }

  #int32(): number {
    const from = this.offset;
    this.#skip(4);
    return this.#bytes.readInt32LE(from);
  }

  #double(): number {
    const from = this.offset;
    this.#skip(8);
    return this.#bytes.readDoubleLE(from);
  }

  #text(): string {
    const size = this.#size();
    const from = this.offset;
    this.#skip(size);
    const bytes = this.#bytes;
    // Mostly names of fields. For short plain text, this is cheaper than a view of its bytes.
    return size <= SHORT_TEXT && isAscii(bytes, from, this.offset)
      ? bytes.toString('latin1', from, this.offset)
      : decodeText(bytes.subarray(from, this.offset));
  }

  #size(): number {
    const size = this.#int32();
    if (size < 0) throw new FrameError('a negative length');
    return size;
  }

  #skip(count: number): void {
    const end = this.offset + count;
    if (end > this.#bytes.length) throw new FrameError('a value ends too early');
    this.offset = end;
  }

  #take(count: number): Buffer {
    const from = this.offset;
    this.#skip(count);
    return this.#bytes.subarray(from, this.offset);
  }

  /** Digits of 15 bits, lowest first; a negative count is a negative number. */
  #long(): number | bigint {
    const signed = this.#int32();
    const [count, from] = [Math.abs(signed), this.offset];
    this.#skip(count * 2);
    if (count > MOST_DIGITS) throw new FrameError('an integer that is too long');
    // Long integers take as long to read as many items.
    this.#count(Math.floor(count / ITEM_DIGITS));
    if (count > 2 * FEW_DIGITS) {
      const value = bigFromDigits(this.#bytes.subarray(from, this.offset));
      return signed < 0 ? -value : value;
    }
    const low = this.#fewDigits(from, Math.min(count, FEW_DIGITS));
    const high = this.#fewDigits(from + 2 * FEW_DIGITS, count - FEW_DIGITS);
    const value = high * FEW_WEIGHT + low;
    if (value <= Number.MAX_SAFE_INTEGER) return signed < 0 ? 0 - value : value;
    const exact = BigInt(high) * BigInt(FEW_WEIGHT) + BigInt(low);
    return signed < 0 ? -exact : exact;
  }

  /** As many digits as a JavaScript number holds exactly. */
  #fewDigits(from: number, count: number): number {
    let value = 0;
    for (let at = count - 1; at >= 0; at--) value = value * 0x8000 + this.#bytes.readUInt16LE(from + 2 * at);
    return value;
  }

  #list(depth: number): PyValue[] {
    const count = this.#size();
    // Every item takes at least one byte, so a false count cannot create a large array.
    if (count > this.#bytes.length - this.offset) throw new FrameError('a list ends too early');
    this.#count(count);
    const items: PyValue[] = new Array(count);
    for (let index = 0; index < count; index++) items[index] = this.value(depth + 1);
    return items;
  }

  #dict(depth: number): { [name: string]: PyValue } {
    const record: { [name: string]: PyValue } = {};
    while (this.#bytes[this.offset] !== 0x30) {
      this.#count(1);
      const name = this.value(depth + 1);
      if (typeof name !== 'string') throw new FrameError('a dict with a key that is not text');
      setEntry(record, name, this.value(depth + 1));
    }
    this.offset++;
    return record;
  }

  #opaque(depth: number): PyObject {
    const [described] = this.#list(depth);
    const [type, repr, size] = Array.isArray(described) ? described : [];
    if (typeof type !== 'string' || typeof repr !== 'string') {
      throw new FrameError('an opaque value without type and repr');
    }
    if (size === undefined) return new PyObject(type, repr);
    if (!Number.isSafeInteger(size)) throw new FrameError('an opaque value with a size that is not a number');
    return new PyObject(type, repr, size as number);
  }
}

/** Through hexadecimal text, which takes linear time. Shifting would take quadratic time. */
function bigFromDigits(digits: Buffer): bigint {
  const bytes = Buffer.alloc(Math.ceil((digits.length / 2) * (15 / 8)));
  let [at, gathered, bits] = [bytes.length, 0, 0];
  for (let from = 0; from < digits.length; from += 2) {
    const digit = digits.readUInt16LE(from);
    if (digit > 0x7fff) throw new FrameError('an integer with an invalid digit');
    gathered |= digit << bits;
    for (bits += 15; bits >= 8; bits -= 8) {
      bytes[--at] = gathered;
      gathered >>>= 8;
    }
  }
  if (bits > 0) bytes[--at] = gathered;
  return BigInt(`0x${bytes.toString('hex')}`);
}

function isAscii(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if ((bytes[at] as number) > 0x7f) return false;
  return true;
}

/** UTF-8 as Python writes it with `surrogatepass`: a lone surrogate is three bytes, and stays a lone surrogate. */
function decodeText(bytes: Buffer): string {
  return hasSurrogate(bytes) ? decodeWithSurrogates(bytes) : bytes.toString('utf8');
}

/** Only surrogates begin with `ed` and a byte from `a0` on. */
function hasSurrogate(bytes: Buffer): boolean {
  const first = bytes.indexOf(0xed);
  if (first < 0) return false;
  for (let at = first; at + 2 < bytes.length; at++) {
    if (bytes[at] === 0xed && (bytes[at + 1] as number) >= 0xa0) return true;
  }
  return false;
}

/** Writes unit by unit into a buffer of the largest possible size: appending each surrogate to a string takes seconds. */
function decodeWithSurrogates(bytes: Buffer): string {
  const units = new Uint16Array(bytes.length);
  let [from, count] = [0, 0];
  const takePlain = (to: number) => {
    const plain = bytes.toString('utf8', from, to);
    for (let at = 0; at < plain.length; at++) units[count++] = plain.charCodeAt(at);
  };
  for (let at = 0; at + 2 < bytes.length; at++) {
    if (bytes[at] !== 0xed || (bytes[at + 1] as number) < 0xa0) continue;
    if (at > from) takePlain(at);
    units[count++] = 0xd000 | (((bytes[at + 1] as number) & 0x3f) << 6) | ((bytes[at + 2] as number) & 0x3f);
    at += 2;
    from = at + 1;
  }
  if (from < bytes.length) takePlain(bytes.length);
  return Buffer.from(units.buffer, 0, count * 2).toString('utf16le');
}

/** UTF-8 that keeps lone surrogates, for `surrogatepass` on the other side. */
export function encodeText(text: string): Buffer {
  if (text.isWellFormed()) return Buffer.from(text);
  const bytes = Buffer.allocUnsafe(MOST_UNIT_BYTES * text.length);
  return bytes.subarray(0, writeText(text, bytes, 0));
}

/** The most bytes of one UTF-16 unit. */
const MOST_UNIT_BYTES = 3;

/** The same, into a buffer with enough room. Returns the end position. */
export function writeText(text: string, to: Buffer, from: number): number {
  if (text.isWellFormed()) return from + to.write(text, from, 'utf8');
  let end = from;
  // Unit by unit: a buffer for each surrogate would take seconds.
  for (let at = 0; at < text.length; at++) {
    const unit = text.codePointAt(at) as number;
    if (unit < 0x80) {
      to[end++] = unit;
      continue;
    }
    if (unit < 0x800) to[end++] = 0xc0 | (unit >> 6);
    else {
      if (unit > 0xffff) {
        to[end++] = 0xf0 | (unit >> 18);
        to[end++] = 0x80 | ((unit >> 12) & 0x3f);
        at++;
      } else to[end++] = 0xe0 | (unit >> 12);
      to[end++] = 0x80 | ((unit >> 6) & 0x3f);
    }
    to[end++] = 0x80 | (unit & 0x3f);
  }
  return end;
}

const INT32 = 2 ** 31;
const DIGIT = 2 ** DIGIT_BITS - 1;
/** The number of parts that one step writes: items of a list, keys of a dict or pieces of a long text. */
const STEP_PARTS = 2000;
const STEP_BYTES = 128 * 1024;
/** Characters of a long text that one step writes. */
const PIECE = 32 * 1024;
const FIRST_BYTES = 256;

/** Whole numbers become ints, because JavaScript does not distinguish `1.0` from `1`. */
export function encodeValue(value: PyValue): Buffer {
  const encoder = new ValueEncoder(value);
  while (!encoder.step());
  return encoder.bytes;
}

/** The containers and texts that are not completely written. */
type Open =
  | { readonly kind: 'list'; readonly list: readonly PyValue[]; at: number }
  | { readonly kind: 'dict'; readonly dict: { [name: string]: PyValue }; readonly names: readonly string[]; at: number }
  | { readonly kind: 'text'; readonly text: string; readonly lengthAt: number; at: number };

/** Writes a value step by step, so that the caller can do other work between the steps of a large one. */
export class ValueEncoder {
  #buffer = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  readonly #open: Open[] = [];

  constructor(value: PyValue) {
    this.#write(value);
  }

  /** Writes a part of the value. Returns true when all of it is written. */
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

  /** The number of bytes written so far. */
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

  /** Does not split a surrogate pair. */
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
    // Through hexadecimal text, which takes linear time. Shifting would take quadratic time.
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

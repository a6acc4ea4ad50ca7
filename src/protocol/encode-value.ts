/** Values for a kernel: the same part of marshal version 2 that kernels send, see values.ts. */

import { encodeText, PyObject, type PyValue } from './values.ts';

const INT32 = 2 ** 31;
const DIGIT_BITS = 15n;
const DIGIT = (1n << DIGIT_BITS) - 1n;

/** Whole numbers become ints: JavaScript does not tell `1.0` from `1`. */
export function encodeValue(value: PyValue): Buffer {
  const parts: Buffer[] = [];
  write(value, parts);
  return Buffer.concat(parts);
}

function write(value: PyValue, parts: Buffer[]): void {
  if (value === null) parts.push(letter('N'));
  else if (typeof value === 'boolean') parts.push(letter(value ? 'T' : 'F'));
  else if (typeof value === 'string') sized('u', encodeText(value), parts);
  else if (typeof value === 'bigint') parts.push(long(value));
  else if (typeof value === 'number') parts.push(number(value));
  else if (value instanceof Uint8Array) sized('s', value, parts);
  else if (value instanceof PyObject) sized('u', encodeText(value.repr), parts);
  else if (Array.isArray(value)) {
    parts.push(letter('['), int32(value.length));
    for (const item of value) write(item, parts);
  } else {
    parts.push(letter('{'));
    for (const [name, item] of Object.entries(value)) {
      sized('u', encodeText(name), parts);
      write(item, parts);
    }
    parts.push(letter('0'));
  }
}

const letter = (text: string): Buffer => Buffer.from(text, 'latin1');

function int32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function sized(type: string, bytes: Uint8Array, parts: Buffer[]): void {
  parts.push(letter(type), int32(bytes.length), Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
}

function number(value: number): Buffer {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    if (value >= -INT32 && value < INT32) return Buffer.concat([letter('i'), int32(value)]);
    return long(BigInt(value));
  }
  const bytes = Buffer.allocUnsafe(9);
  bytes.write('g', 'latin1');
  bytes.writeDoubleLE(value, 1);
  return bytes;
}

/** Digits of 15 bits, lowest first; a negative count is a negative number. */
function long(value: bigint): Buffer {
  const digits: number[] = [];
  for (let rest = value < 0n ? -value : value; rest > 0n; rest >>= DIGIT_BITS) digits.push(Number(rest & DIGIT));
  const bytes = Buffer.allocUnsafe(5 + digits.length * 2);
  bytes.write('l', 'latin1');
  bytes.writeInt32LE(value < 0n ? -digits.length : digits.length, 1);
  for (const [index, digit] of digits.entries()) bytes.writeUInt16LE(digit, 5 + index * 2);
  return bytes;
}

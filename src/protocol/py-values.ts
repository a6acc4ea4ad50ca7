/**
 * Python values as JavaScript values, and their JSON forms. Works in browsers.
 *
 * On the wire, JSON values stay as they are; the rest is an object with one key that begins with `$`: `{"$int": "…"}` past 2^53
 * (in hexadecimal, `"0x…"`, if it is long), `{"$float": "nan" | "inf" | "-inf" | "-0"}`, `{"$bytes": "base64"}` and
 * `{"$object": {"type", "repr", "size"?}}`. A key of a dict that begins with `$` gets one more `$`.
 */

import { z } from 'zod';
import { setEntry } from '../lib/values.ts';

/** A Python object that has no JavaScript form, or is too large: the name of its type, and its repr. */
export class PyObject {
  readonly type: string;
  readonly repr: string;
  /** Only for a value that is too large: its number of items, characters or bytes, or the bits of an integer. */
  declare readonly size?: number;

  constructor(type: string, repr: string, size?: number) {
    this.type = type;
    this.repr = repr;
    if (size !== undefined) this.size = size;
  }

  toJSON(): { type: string; repr: string; size?: number } {
    return { type: this.type, repr: this.repr, size: this.size };
  }
}

export type PyValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PyObject
  | PyValue[]
  | { [name: string]: PyValue };

/** JSON with a number of any length (`JSON.rawJSON`), which the type library does not declare yet. */
const { rawJSON: rawJson } = JSON as typeof JSON & { rawJSON(text: string): unknown };

/** JSON for people and programs: big integers as exact numbers; bytes, NaN and infinities as small objects. */
export function valueToJson(value: PyValue): unknown {
  if (typeof value === 'bigint') return rawJson(value.toString());
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { type: 'float', repr: Number.isNaN(value) ? 'nan' : value > 0 ? 'inf' : '-inf' };
  }
  if (value instanceof Uint8Array) return { type: 'bytes', base64: Buffer.from(value).toString('base64') };
  if (value instanceof PyObject) return value.toJSON();
  if (Array.isArray(value)) return value.map(valueToJson);
  if (value !== null && typeof value === 'object') {
    const dict: { [name: string]: unknown } = {};
    for (const [name, item] of Object.entries(value)) setEntry(dict, name, valueToJson(item));
    return dict;
  }
  return value;
}

/** Longer integers are hexadecimal, which takes linear time. Decimal digits of a large one would block for seconds. */
const MOST_DECIMAL_LETTERS = 1024;
/** Decimal integers that a client can send. */
const DECIMAL = /^-?\d{1,10000}$/;
const HEXADECIMAL = /^-?0x[0-9a-f]+$/i;

export type WireValue = null | boolean | number | string | WireValue[] | { [name: string]: WireValue };

export function valueToWire(value: PyValue): WireValue {
  switch (typeof value) {
    case 'bigint':
      return { $int: intToText(value) };
    case 'number':
      return numberToWire(value);
    case 'object':
      return objectToWire(value);
    default:
      return value;
  }
}

function intToText(value: bigint): string {
  const letters = value.toString(16);
  if (letters.length <= MOST_DECIMAL_LETTERS) return value.toString();
  return value < 0n ? `-0x${letters.slice(1)}` : `0x${letters}`;
}

function intFromText(text: string): bigint {
  // `BigInt` accepts no sign before 0x.
  return text.startsWith('-') ? -BigInt(text.slice(1)) : BigInt(text);
}

function numberToWire(value: number): WireValue {
  if (Number.isFinite(value) && !Object.is(value, -0)) return value;
  if (Number.isNaN(value)) return { $float: 'nan' };
  return { $float: value === 0 ? '-0' : value > 0 ? 'inf' : '-inf' };
}

function objectToWire(value: Extract<PyValue, object | null>): WireValue {
  if (value === null) return null;
  if (Array.isArray(value)) return value.map(valueToWire);
  if (value instanceof Uint8Array) return { $bytes: toBase64(value) };
  if (value instanceof PyObject) return { $object: value.toJSON() };
  // Key by key: creating a list of all keys first would double the time for a dict with many keys.
  const dict: { [name: string]: WireValue } = {};
  for (const name in value) {
    setEntry(dict, name.startsWith('$') ? `$${name}` : name, valueToWire(value[name] as PyValue));
  }
  return dict;
}

const IntText = z
  .string()
  .refine((text) => DECIMAL.test(text) || HEXADECIMAL.test(text), 'an int, in hexadecimal past 10,000 digits');

const special = z.union([
  z.strictObject({ $int: IntText }).transform(({ $int }): PyValue => intFromText($int)),
  z.strictObject({ $float: z.enum(['nan', 'inf', '-inf', '-0']) }).transform(({ $float }): PyValue => floats[$float]),
  z.strictObject({ $bytes: z.base64() }).transform(({ $bytes }): PyValue => fromBase64($bytes)),
  z
    .strictObject({ $object: z.strictObject({ type: z.string(), repr: z.string(), size: z.int().optional() }) })
    .transform(({ $object: { type, repr, size } }): PyValue => new PyObject(type, repr, size)),
]);

/** A zod record would drop a key named `__proto__`. */
const Dict = z.custom<Record<string, unknown>>((value) => typeof value === 'object' && value !== null);

const floats = { nan: Number.NaN, inf: Number.POSITIVE_INFINITY, '-inf': Number.NEGATIVE_INFINITY, '-0': -0 };

/** Without Buffer, for browsers. The size of a slice is limited because a call has a maximum number of arguments. */
function toBase64(bytes: Uint8Array): string {
  if (typeof Buffer === 'function') return Buffer.from(bytes).toString('base64');
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += 8192) parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)));
  return btoa(parts.join(''));
}

/** In browsers there is no Buffer. */
function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Throws a ZodError if `valueToWire` cannot have written the value. */
export function valueFromWire(value: unknown): PyValue {
  if (value === null || typeof value === 'boolean' || typeof value === 'number' || typeof value === 'string') {
    return value;
  }
  if (Array.isArray(value)) return value.map(valueFromWire);
  const entries = Object.entries(Dict.parse(value));
  const [first] = entries;
  if (entries.length === 1 && first && /^\$[^$]/.test(first[0])) return special.parse(value);
  const dict: { [name: string]: PyValue } = {};
  for (const [name, item] of entries) setEntry(dict, name.startsWith('$$') ? name.slice(1) : name, valueFromWire(item));
  return dict;
}

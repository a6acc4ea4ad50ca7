/** Python values as JavaScript values, and their two JSON forms. Works in browsers. */

/** A Python object that has no native form here, or is too large for it: its type's name and its repr. */
export class PyObject {
  readonly type: string;
  readonly repr: string;
  /** Of one that is too large: its items, characters or bytes, or the bits of an integer. */
  declare readonly size?: number;

  constructor(type: string, repr: string, size?: number) {
    this.type = type;
    this.repr = repr;
    if (size !== undefined) this.size = size;
  }

  toJSON(): { type: string; repr: string; size?: number } {
    return { type: this.type, repr: this.repr, ...(this.size === undefined ? {} : { size: this.size }) };
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

/** A number of any length, written to JSON digit by digit; the language has it, its type library does not yet. */
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
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, valueToJson(item)]));
  }
  return value;
}

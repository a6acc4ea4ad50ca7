/** Writes untrusted values as JSON, in slices, so that a large value does not block the event loop. */

import { inTurns, ownTurn } from '../lib/event-loop.ts';
import { PyObject, type PyValue, valueToWire, type WireValue } from './py-values.ts';

/** For the numbers of `valueToJson`, which the type library does not declare yet. */
const { isRawJSON: isRawJson } = JSON as typeof JSON & { isRawJSON(value: unknown): boolean };

/** Smaller values are written in one step. Characters and parts count the same. */
const SMALL = 128 * 1024;
/** Characters of a long text that are written in one step. */
const SLICE = 64 * 1024;
/** Characters of JSON in a piece. */
const PIECE = 256 * 1024;
/** How many parts are written before other work may run. */
const PARTS = 500;

/** Large JSON is kept as bytes, in pieces. */
export type JsonText = string | readonly Buffer[];

/** Stands for a large value, as JSON that is written only once. */
export class JsonPieces {
  readonly pieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[]) {
    this.pieces = pieces;
  }

  /** For `JSON.stringify`, and for callers that need the value. */
  toJSON(): unknown {
    return JSON.parse(Buffer.concat([...this.pieces]).toString());
  }
}

/** Same text as `JSON.stringify` for plain data: objects, lists, texts, numbers, booleans, null and objects with `toJSON`. */
export async function jsonText(value: unknown, small = SMALL): Promise<JsonText> {
  return weigh(value, small) >= 0 ? JSON.stringify(value) : await writeInTurns(value, { wire: false });
}

/** Like `jsonText`, but cut off shortly after `most` characters. A cut text is longer than `most`. */
export async function jsonBeginning(value: unknown, most: number, small = SMALL): Promise<string> {
  const text = await jsonText(value, small);
  if (typeof text === 'string') return text.length > most ? text.slice(0, most + 1) : text;
  // A UTF-16 unit takes at most three bytes. The decoder drops an incomplete character at the end.
  const bytes = Buffer.concat([...text]).subarray(0, 3 * (most + 1));
  return new TextDecoder().decode(bytes, { stream: true }).slice(0, most + 1);
}

/** Like `valueToWire`, but returns the JSON of a large value. */
export async function toWireInSlices(value: PyValue, small = SMALL): Promise<WireValue | JsonPieces> {
  return weigh(value, small) >= 0 ? valueToWire(value) : new JsonPieces(await writeInTurns(value, { wire: true }));
}

async function writeInTurns(value: unknown, { wire }: { readonly wire: boolean }): Promise<readonly Buffer[]> {
  await ownTurn();
  const writer = new Writer();
  await inTurns(write(value, writer, wire));
  return writer.end();
}

export function jsonBytes(text: JsonText): number {
  if (typeof text === 'string') return Buffer.byteLength(text);
  return text.reduce((total, piece) => total + piece.length, 0);
}

/** Whether the JSON is longer than `most` characters. Visits only as much of the value as needed. */
export function isJsonLonger(value: unknown, most: number): boolean {
  return weigh(value, most) < 0 || (JSON.stringify(value)?.length ?? 0) > most;
}

/** What is left of `room` after the value. Stops as soon as it is negative. */
function weigh(value: unknown, room: number): number {
  if (typeof value === 'string') return room - value.length;
  if (typeof value !== 'object' || value === null) return room - 1;
  if (value instanceof Uint8Array) return room - value.length;
  if (value instanceof JsonPieces) return -1;
  let left = room - 1;
  if (Array.isArray(value)) {
    for (const item of value) {
      left = weigh(item, left);
      if (left < 0) break;
    }
    return left;
  }
  for (const name in value) {
    left = weigh((value as Record<string, unknown>)[name], left - name.length);
    if (left < 0) break;
  }
  return left;
}

class Writer {
  readonly #pieces: Buffer[] = [];
  #text = '';
  #parts = 0;

  /** Returns true if other work may run now. */
  add(text: string): boolean {
    this.#text += text;
    this.#parts += 1;
    if (this.#text.length >= PIECE) {
      this.#pieces.push(Buffer.from(this.#text));
      this.#text = '';
    } else if (this.#parts < PARTS) return false;
    this.#parts = 0;
    return true;
  }

  addPieces(pieces: readonly Buffer[]): void {
    if (this.#text !== '') this.#pieces.push(Buffer.from(this.#text));
    this.#pieces.push(...pieces);
    this.#text = '';
  }

  end(): readonly Buffer[] {
    this.#pieces.push(Buffer.from(this.#text));
    return this.#pieces;
  }
}

/** Yields where other work may run. `wire`: writes Python values as `valueToWire` does. */
function* write(value: unknown, to: Writer, wire: boolean): Generator<undefined, void> {
  if (typeof value === 'string' && value.length > SLICE) yield* writeLong(value, to);
  else if (value instanceof JsonPieces) to.addPieces(value.pieces);
  else if (Array.isArray(value)) {
    if (to.add('[')) yield;
    for (let index = 0; index < value.length; index++) {
      if (index > 0 && to.add(',')) yield;
      yield* write(value[index] === undefined ? null : value[index], to, wire);
    }
    if (to.add(']')) yield;
  } else if (wire && isSpecial(value)) {
    yield* write(valueToWire(value), to, false);
  } else if (typeof value === 'object' && value !== null && !('toJSON' in value) && !isRawJson(value)) {
    let before = '{';
    for (const name in value) {
      const item = (value as Record<string, unknown>)[name];
      if (item === undefined) continue;
      if (to.add(`${before}${JSON.stringify(wire && name.startsWith('$') ? `$${name}` : name)}:`)) yield;
      yield* write(item, to, wire);
      before = ',';
    }
    if (to.add(before === '{' ? '{}' : '}')) yield;
  } else if (to.add(JSON.stringify(value))) yield;
}

/** Whether JSON has no form for it. */
function isSpecial(value: unknown): value is PyValue {
  if (typeof value === 'number') return !Number.isFinite(value) || Object.is(value, -0);
  return typeof value === 'bigint' || value instanceof Uint8Array || value instanceof PyObject;
}

/** Never cuts between the halves of a surrogate pair: JSON.stringify would escape each half. */
function* writeLong(text: string, to: Writer): Generator<undefined, void> {
  to.add('"');
  for (let from = 0; from < text.length; ) {
    let end = Math.min(text.length, from + SLICE);
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++;
    if (to.add(JSON.stringify(text.slice(from, end)).slice(1, -1))) yield;
    from = end;
  }
  to.add('"');
}

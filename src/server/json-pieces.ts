/** Writes untrusted values as JSON, in slices, so that a large value does not block the event loop. */

import { setImmediate as turn } from 'node:timers/promises';
import { PyObject, type PyValue, valueToWire, type WireValue } from '../protocol/py-values.ts';

/** Up to here, in characters and parts together, it is written at once. */
const SMALL = 128 * 1024;
/** How much of a long text is written at a time, and how much JSON makes a piece. */
const SLICE = 64 * 1024;
const PIECE = 256 * 1024;
/** How many parts are written between two looks at the clock: small parts take long before they make a piece. */
const PARTS = 500;
/** How long writing may take before other work gets a turn. */
const TURN_MS = 8;

/** One text, or the bytes of a long one in pieces. */
export type JsonText = string | readonly Buffer[];

/** A large value in place of itself: it is written once, however often it is a part of something. */
export class JsonPieces {
  readonly pieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[]) {
    this.pieces = pieces;
  }

  /** For callers that do not know this class and need the value itself. */
  toJSON(): unknown {
    return JSON.parse(Buffer.concat([...this.pieces]).toString());
  }
}

/** What `JSON.stringify` gives for plain data: objects, lists, texts, numbers, booleans, null, and `toJSON` as a whole. */
export async function jsonText(value: unknown, small = SMALL): Promise<JsonText> {
  return weigh(value, small) >= 0 ? JSON.stringify(value) : await written(value, { wire: false });
}

/** The same, but of what is longer than `most` characters only the beginning, which is longer, too. */
export async function jsonBeginning(value: unknown, most: number, small = SMALL): Promise<string> {
  const text = await jsonText(value, small);
  if (typeof text === 'string') return text.length > most ? text.slice(0, most + 1) : text;
  // A character has three bytes at most. One that is cut is left out.
  const bytes = Buffer.concat([...text]).subarray(0, 3 * (most + 1));
  return new TextDecoder().decode(bytes, { stream: true }).slice(0, most + 1);
}

/** As `valueToWire`, but for a large value its JSON. */
export async function toWireInSlices(value: PyValue, small = SMALL): Promise<WireValue | JsonPieces> {
  return weigh(value, small) >= 0 ? valueToWire(value) : new JsonPieces(await written(value, { wire: true }));
}

async function written(value: unknown, how: { readonly wire: boolean }): Promise<readonly Buffer[]> {
  await turn();
  const writer = new Writer();
  for (const _pause of write(value, writer, how.wire)) await writer.pause();
  return writer.end();
}

export function jsonBytes(text: JsonText): number {
  if (typeof text === 'string') return Buffer.byteLength(text);
  return text.reduce((total, piece) => total + piece.length, 0);
}

/** Whether its JSON has more than so many characters. Of a large value only a part is looked at. */
export function isJsonLonger(value: unknown, most: number): boolean {
  return weigh(value, most) < 0 || (JSON.stringify(value)?.length ?? 0) > most;
}

/** What is left of `room`; negative, without a look at the rest, where it is not enough. */
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
  #since = performance.now();

  /** Returns true if other work should get a turn. */
  add(text: string): boolean {
    this.#text += text;
    this.#parts += 1;
    if (this.#text.length >= PIECE) {
      this.#pieces.push(Buffer.from(this.#text));
      this.#text = '';
    } else if (this.#parts < PARTS) return false;
    this.#parts = 0;
    return performance.now() - this.#since > TURN_MS;
  }

  addPieces(pieces: readonly Buffer[]): void {
    if (this.#text !== '') this.#pieces.push(Buffer.from(this.#text));
    this.#pieces.push(...pieces);
    this.#text = '';
  }

  async pause(): Promise<void> {
    await turn();
    this.#since = performance.now();
  }

  end(): readonly Buffer[] {
    this.#pieces.push(Buffer.from(this.#text));
    return this.#pieces;
  }
}

/** Yields at points where it may pause. `wire`: writes the form of `valueToWire`. */
function* write(value: unknown, to: Writer, wire: boolean): Generator<void, void, undefined> {
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
  } else if (typeof value === 'object' && value !== null && !('toJSON' in value)) {
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

/** What JSON has no word for. */
function isSpecial(value: unknown): value is PyValue {
  if (typeof value === 'number') return !Number.isFinite(value) || Object.is(value, -0);
  return typeof value === 'bigint' || value instanceof Uint8Array || value instanceof PyObject;
}

/** A pair of surrogates is never cut: each half alone would be written as an escape. */
function* writeLong(text: string, to: Writer): Generator<void, void, undefined> {
  to.add('"');
  for (let from = 0; from < text.length; ) {
    let end = Math.min(text.length, from + SLICE);
    if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++;
    if (to.add(JSON.stringify(text.slice(from, end)).slice(1, -1))) yield;
    from = end;
  }
  to.add('"');
}

/**
 * Prevents an answer from containing the key: plain, in pieces of any size, or JSON-escaped, including JSON nested in JSON
 * strings.
 */

import type { TextPiece } from './providers/provider.ts';

/** Levels of nested escapes: a tool's input is JSON in a string of an event, and may contain such strings itself. */
const MOST_LEVELS = 4;
/** A prefix of this length, such as `sk-ant-`, may occur in harmless text. */
const INNOCENT = 8;
const BACKSLASH = 0x5c;

/** The last bytes of one level, and an unfinished escape. */
interface Level {
  tail: Buffer;
  begun: Buffer;
}

export class KeyLeakScanner {
  readonly #key: Buffer;
  /** The first level is the input. Each further level is the previous one with its escapes decoded. */
  readonly #levels: Level[] = [{ tail: NOTHING, begun: NOTHING }];

  constructor(key: string) {
    this.#key = Buffer.from(key);
  }

  /** Returns false if this piece completes the key. The piece must then not be passed on. */
  passes(piece: Buffer): boolean {
    let bytes = piece;
    for (let depth = 0; depth < this.#levels.length; depth++) {
      const level = this.#levels[depth] as Level;
      const before = level.tail;
      const joined = before.length === 0 ? bytes : Buffer.concat([before, bytes]);
      if (joined.includes(this.#key)) return false;
      level.tail = Buffer.from(joined.subarray(Math.max(0, joined.length - this.#key.length + 1)));
      const isLast = depth === this.#levels.length - 1;
      // Until the first escape, the next level would be identical.
      if (isLast && depth < MOST_LEVELS - 1 && bytes.includes(BACKSLASH)) {
        this.#levels.push({ tail: before, begun: NOTHING });
      }
      bytes = unescaped(level, bytes);
    }
    return true;
  }

  /** Whether the last bytes may begin the key, with more of it than harmless text contains. */
  get mayFollow(): boolean {
    return this.#levels.some(({ tail }) => this.#begunIn(tail) > 0);
  }

  /** Whether the last bytes are at least half of the key. */
  get hasHalf(): boolean {
    return this.#levels.some(({ tail }) => this.#begunIn(tail) * 2 >= this.#key.length);
  }

  #begunIn(tail: Buffer): number {
    const start = this.#key.subarray(0, Math.min(INNOCENT, Math.ceil(this.#key.length / 2)));
    for (let at = tail.indexOf(start); at !== -1; at = tail.indexOf(start, at + 1)) {
      const rest = tail.subarray(at);
      if (rest.equals(this.#key.subarray(0, rest.length))) return rest.length;
    }
    return 0;
  }
}

/** Limits the places that are remembered, besides those that begin the key. */
const MOST_PLACES = 64;

/**
 * Watches the model's text across the events of a stream: all of it in order, and that of each place by itself. Clients join
 * the pieces of one place, whatever stands between them.
 */
export class TextLeakScanner {
  readonly #key: string;
  readonly #all: KeyLeakScanner;
  readonly #places = new Map<string, KeyLeakScanner>();
  /** The places whose last bytes may begin the key. */
  readonly #begun = new Set<string>();

  constructor(key: string) {
    this.#key = key;
    this.#all = new KeyLeakScanner(key);
  }

  /** Returns false if one of these pieces completes the key. */
  passes(pieces: readonly TextPiece[]): boolean {
    return pieces.every(({ place, text }) => {
      const bytes = Buffer.from(text);
      return this.#all.passes(bytes) && this.#passesAt(place, bytes);
    });
  }

  /** Whether a further piece could complete the key. */
  get mayFollow(): boolean {
    return this.#begun.size > 0 || this.#all.mayFollow;
  }

  /** Whether the last of the text, or of a place, is at least half of the key. */
  get hasHalf(): boolean {
    return this.#all.hasHalf || [...this.#begun].some((place) => this.#places.get(place)?.hasHalf);
  }

  #passesAt(place: string, bytes: Buffer): boolean {
    const scanner = this.#places.get(place) ?? new KeyLeakScanner(this.#key);
    this.#places.delete(place);
    this.#places.set(place, scanner);
    if (!scanner.passes(bytes)) return false;
    if (scanner.mayFollow) this.#begun.add(place);
    else this.#begun.delete(place);
    for (const oldest of this.#places.keys()) {
      if (this.#places.size - this.#begun.size <= MOST_PLACES) break;
      if (!this.#begun.has(oldest)) this.#places.delete(oldest);
    }
    return true;
  }
}

/** Whether a text contains the key, plain or escaped. */
export const holdsKey = (text: string, key: string): boolean => !new KeyLeakScanner(key).passes(Buffer.from(text));

const NOTHING = Buffer.alloc(0);

function unescaped(level: Level, bytes: Buffer): Buffer {
  const input = level.begun.length === 0 ? bytes : Buffer.concat([level.begun, bytes]);
  level.begun = NOTHING;
  let slash = input.indexOf(BACKSLASH);
  if (slash === -1) return input;
  const out = Buffer.allocUnsafe(input.length);
  let [from, at] = [0, 0];
  for (; slash !== -1; slash = input.indexOf(BACKSLASH, from)) {
    at += input.copy(out, at, from, slash);
    const isHex = input[slash + 1] === 0x75;
    if (input.length < slash + (isHex ? 6 : 2)) {
      level.begun = Buffer.from(input.subarray(slash));
      return out.subarray(0, at);
    }
    const code = isHex ? codeAt(input, slash + 2) : escapedBy(input[slash + 1] ?? 0);
    out[at++] = code < 0x80 ? code : 0;
    from = slash + (isHex ? 6 : 2);
  }
  at += input.copy(out, at, from);
  return out.subarray(0, at);
}

/** Decodes four hex digits. Returns 0 if they are invalid, or are not a character of a key. */
function codeAt(input: Buffer, from: number): number {
  let code = 0;
  for (let at = from; at < from + 4; at++) {
    const byte = input[at] ?? 0;
    const digit = byte <= 0x39 ? byte - 0x30 : (byte | 0x20) - 0x57;
    if (digit < 0 || digit > 15) return 0;
    code = code * 16 + digit;
  }
  return code;
}

/** Decodes an escaped quote, slash or backslash. Other escapes are not characters of a key. */
const escapedBy = (byte: number): number => (byte === 0x22 || byte === 0x2f || byte === BACKSLASH ? byte : 0);

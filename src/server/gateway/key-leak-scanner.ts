/**
 * Sees to it that a key does not come back in an answer: plain, in pieces of any size, or JSON-escaped, also as JSON in a
 * text of JSON.
 */

/** How often an escape can be escaped: the input of a tool is JSON in a text of an event, and may hold such a text. */
const MOST_LEVELS = 4;
/** How much of a key can be the beginning of an innocent text, such as `sk-ant-`. */
const INNOCENT = 8;
const BACKSLASH = 0x5c;

/** What was seen last at one level, and an escape that has begun. */
interface Level {
  tail: Buffer;
  begun: Buffer;
}

export class KeyLeakScanner {
  readonly #key: Buffer;
  /** The first one is what came; each other one is the one before it without its escapes. */
  readonly #levels: Level[] = [{ tail: NOTHING, begun: NOTHING }];

  constructor(key: string) {
    this.#key = Buffer.from(key);
  }

  /** False where this piece, with those before it, holds the key: then it must not be passed on. */
  passes(piece: Buffer): boolean {
    let bytes = piece;
    for (let depth = 0; depth < this.#levels.length; depth++) {
      const level = this.#levels[depth] as Level;
      const before = level.tail;
      const joined = before.length === 0 ? bytes : Buffer.concat([before, bytes]);
      if (joined.includes(this.#key)) return false;
      level.tail = Buffer.from(joined.subarray(Math.max(0, joined.length - this.#key.length + 1)));
      const isLast = depth === this.#levels.length - 1;
      // Until the first escape, what is behind it is the same.
      if (isLast && depth < MOST_LEVELS - 1 && bytes.includes(BACKSLASH)) {
        this.#levels.push({ tail: before, begun: NOTHING });
      }
      bytes = unescaped(level, bytes);
    }
    return true;
  }

  /** Whether what came last may be the beginning of the key, and more of it than an innocent text has. */
  get mayFollow(): boolean {
    return this.#levels.some(({ tail }) => this.#begunIn(tail) > 0);
  }

  /** Whether what came last is at least half of the key. */
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

/** Whether a text holds the key in any of these ways. */
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

/** Of four digits; 0 where they are none, or stand for no character of a key. */
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

/** A quote, a slash or a backslash; the others stand for no character of a key. */
const escapedBy = (byte: number): number => (byte === 0x22 || byte === 0x2f || byte === BACKSLASH ? byte : 0);

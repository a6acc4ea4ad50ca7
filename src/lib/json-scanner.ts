/**
 * Scans JSON from untrusted peers byte by byte, within limits and without building values. Also decides whether a text is
 * cheap to parse: JSON.parse can block the process for a minute on a body that fits into one request.
 */

export interface ScanLimits {
  readonly mostDeep: number;
  /** Keys of the outermost object. */
  readonly mostKeys: number;
  /** Limit on the total cost of parsing: 1 for a number or word, 2 for a text, 10 for an object, array or key. */
  readonly mostEffort?: number;
}

/** Follows a scan from value to value. The scanner keeps and reports only what the listener asks for. */
export interface ScanListener {
  /** A value begins. Returns true if it is a text and the listener wants that text. */
  begin(kind: 'object' | 'array' | 'text' | 'other'): boolean;
  /** Whether the listener wants the keys at this point. */
  readonly wantsKeys: boolean;
  /** A key as written, with its quotes. Returns false if the key is not allowed: the scan then stops. */
  key(json: string): boolean;
  /** Like `key`, for a text that the listener wants. A text longer than `mostKept` is cut off. */
  text(json: string): boolean;
  /** An object or array ends. */
  close(): void;
  /** How many bytes of a text or key are kept. */
  readonly mostKept: number;
}

/** The byte ranges of a key of the outermost object and of its value; ends are exclusive. */
export interface JsonMember {
  readonly key: readonly [number, number];
  readonly value: readonly [number, number];
}

const [VALUE, FIRST, KEY, FIRST_KEY, COLON, AFTER, STRING, ESCAPE, HEX, WORD] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/** States within a number. From ZERO on, the number may end. */
const [MINUS, DOT, EXPONENT, SIGN, ZERO, WHOLE, FRACTION, POWER] = [10, 11, 12, 13, 14, 15, 16, 17];
const [BROKEN] = [18];
/** In proportion to JSON.parse: a million numbers take no noticeable time, a million keys take a second. */
const [LIGHT, TEXT, HEAVY] = [1, 2, 10];

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
// Browsers have no Buffer, so this module makes none while it loads.
const WORDS = ['true', 'false', 'null'].map((word) => new TextEncoder().encode(word));
const NOTHING = new Uint8Array(0);
const ESCAPED = new Set(new TextEncoder().encode('"\\/bfnrt'));

export class JsonScanner {
  readonly members: JsonMember[] = [];
  readonly #limits: ScanLimits;
  readonly #follower: ScanListener | undefined;
  /** The beginning of a wanted text or key, from earlier chunks. */
  #kept: Buffer | undefined;
  /** Where the wanted text or key begins; -1 if none is wanted. */
  #keepFrom = -1;
  #chunk: Buffer | undefined;
  /** Where the chunk begins. */
  #chunkAt = 0;
  /** By depth: 1 for an object. */
  readonly #objects: number[] = [0];
  #state = VALUE;
  #depth = 0;
  #at = 0;
  #effort = 0;
  #isTooMuch = false;
  #isKey = false;
  #hexLeft = 0;
  #word = WORDS[0] ?? NOTHING;
  #wordAt = 0;
  #start = 0;
  #key: readonly [number, number] = [0, 0];

  constructor(limits: ScanLimits, follower?: ScanListener) {
    this.#limits = limits;
    this.#follower = follower;
  }

  /** Returns false if the input is not JSON or exceeds a limit. No later chunk changes that. */
  push(chunk: Uint8Array): boolean {
    this.#chunk = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    this.#chunkAt = this.#at;
    for (let index = 0; index < chunk.length && this.#state !== BROKEN; index++, this.#at++) {
      if (this.#state === STRING) {
        const end = endOfPlain(chunk, index);
        this.#at += end - index;
        index = end;
        if (end === chunk.length) break;
      }
      const byte = chunk[index] ?? 0;
      this.#state = this.#state === STRING ? this.#inString(byte) : this.#next(byte);
    }
    if (this.#keepFrom !== -1 && this.#state !== BROKEN) this.#keep();
    return this.#state !== BROKEN;
  }

  /** Whether the input was refused for exceeding a limit. It may still be valid JSON. */
  get isTooMuch(): boolean {
    return this.#isTooMuch;
  }

  /** The cost of parsing the input so far; see `mostEffort`. */
  get effort(): number {
    return this.#effort;
  }

  /** Whether the outermost value is an object. */
  get isObject(): boolean {
    return this.#objects[1] === 1;
  }

  /** Whether the input was exactly one JSON value. */
  end(): boolean {
    return this.#depth === 0 && (this.#state === AFTER || this.#state >= ZERO) && this.#state !== BROKEN;
  }

  #next(byte: number): number {
    switch (this.#state) {
      case ESCAPE:
        if (byte !== 0x75) return ESCAPED.has(byte) ? STRING : BROKEN;
        this.#hexLeft = 4;
        return HEX;
      case HEX:
        if (!isHex(byte)) return BROKEN;
        return --this.#hexLeft === 0 ? STRING : HEX;
      case WORD:
        if (this.#word[++this.#wordAt] !== byte) return BROKEN;
        return this.#wordAt === this.#word.length - 1 ? this.#endValue(1) : WORD;
      default:
        return this.#state >= MINUS ? this.#inNumber(byte) : isBlank(byte) ? this.#state : this.#between(byte);
    }
  }

  #between(byte: number): number {
    switch (this.#state) {
      case FIRST_KEY:
        return byte === 0x7d ? this.#close(1) : this.#beginKey(byte);
      case KEY:
        return this.#beginKey(byte);
      case COLON:
        return byte === 0x3a ? VALUE : BROKEN;
      case AFTER:
        if (this.#depth > 0 && byte === COMMA) return this.#objects[this.#depth] ? KEY : VALUE;
        return byte === 0x7d ? this.#close(1) : byte === 0x5d ? this.#close(0) : BROKEN;
      default:
        return this.#state === FIRST && byte === 0x5d ? this.#close(0) : this.#begin(byte);
    }
  }

  #begin(byte: number): number {
    if (this.#exceeds(effortOf(byte))) return this.#tooMuch();
    if (this.#depth <= 1) this.#start = this.#at;
    const isWanted = this.#follower?.begin(kindOf(byte)) ?? false;
    if (byte === QUOTE) return this.#string(false, isWanted);
    if (byte === 0x7b) return this.#open(1);
    if (byte === 0x5b) return this.#open(0);
    if (byte === 0x2d) return MINUS;
    if (isDigit(byte)) return byte === 0x30 ? ZERO : WHOLE;
    const word = WORDS.find(([first]) => first === byte);
    this.#word = word ?? this.#word;
    this.#wordAt = 0;
    return word ? WORD : BROKEN;
  }

  #beginKey(byte: number): number {
    if (byte !== QUOTE) return BROKEN;
    if (this.#exceeds(HEAVY)) return this.#tooMuch();
    if (this.#depth === 1) this.#start = this.#at;
    return this.#string(true, this.#follower?.wantsKeys ?? false);
  }

  #string(isKey: boolean, isWanted: boolean): number {
    this.#isKey = isKey;
    if (isWanted) this.#keepFrom = this.#at;
    return STRING;
  }

  /** The wanted range of this chunk, limited by `mostKept`. */
  #wantedHere(end: number): readonly [number, number] {
    const from = Math.max(this.#keepFrom, this.#chunkAt) - this.#chunkAt;
    const most = (this.#follower?.mostKept ?? 0) - (this.#kept?.length ?? 0);
    return [from, Math.min(end - this.#chunkAt, from + Math.max(0, most))];
  }

  /** Keeps the wanted part of a text or key that continues in the next chunk. */
  #keep(): void {
    const piece = this.#chunk?.subarray(...this.#wantedHere(this.#at)) ?? NOTHING;
    this.#kept = Buffer.concat([this.#kept ?? NOTHING, piece]);
  }

  /** Returns false if the listener refuses the text or key. */
  #reportText(): boolean {
    if (this.#keepFrom === -1) return true;
    const [from, to] = this.#wantedHere(this.#at + 1);
    const json = this.#kept
      ? Buffer.concat([this.#kept, this.#chunk?.subarray(from, to) ?? NOTHING]).toString('utf8')
      : (this.#chunk?.toString('utf8', from, to) ?? '');
    this.#keepFrom = -1;
    this.#kept = undefined;
    return (this.#isKey ? this.#follower?.key(json) : this.#follower?.text(json)) ?? true;
  }

  /** Handles a byte that is not a plain character. */
  #inString(byte: number): number {
    if (byte === QUOTE) return this.#endString();
    return byte === BACKSLASH ? ESCAPE : BROKEN;
  }

  #endString(): number {
    if (!this.#reportText()) return BROKEN;
    if (!this.#isKey) return this.#endValue(1);
    if (this.#depth === 1) this.#key = [this.#start, this.#at + 1];
    return COLON;
  }

  #open(isObject: 0 | 1): number {
    if (this.#depth >= this.#limits.mostDeep) return this.#tooMuch();
    this.#objects[++this.#depth] = isObject;
    return isObject ? FIRST_KEY : FIRST;
  }

  #close(isObject: 0 | 1): number {
    if (this.#depth === 0 || this.#objects[this.#depth] !== isObject) return BROKEN;
    this.#depth--;
    this.#follower?.close();
    return this.#endValue(1);
  }

  /** `behind`: the distance from the current byte to the end of the value. */
  #endValue(behind: 0 | 1): number {
    if (this.#depth !== 1 || this.#objects[1] !== 1) return AFTER;
    this.members.push({ key: this.#key, value: [this.#start, this.#at + behind] });
    return this.members.length > this.#limits.mostKeys ? this.#tooMuch() : AFTER;
  }

  #inNumber(byte: number): number {
    const next = afterDigit(this.#state, byte);
    if (next !== undefined) return next;
    if (this.#state < ZERO) return BROKEN;
    // The number ended before this byte.
    this.#state = this.#endValue(0);
    return this.#state === BROKEN || isBlank(byte) ? this.#state : this.#between(byte);
  }

  #tooMuch(): number {
    this.#isTooMuch = true;
    return BROKEN;
  }

  #exceeds(effort: number): boolean {
    this.#effort += effort;
    return this.#effort > (this.#limits.mostEffort ?? Number.POSITIVE_INFINITY);
  }
}

function effortOf(byte: number): number {
  if (byte === QUOTE) return TEXT;
  return byte === 0x7b || byte === 0x5b ? HEAVY : LIGHT;
}

function kindOf(byte: number): Parameters<ScanListener['begin']>[0] {
  if (byte === QUOTE) return 'text';
  if (byte === 0x7b) return 'object';
  return byte === 0x5b ? 'array' : 'other';
}

/** Skips plain characters in one go: most input is text. */
function endOfPlain(chunk: Uint8Array, from: number): number {
  for (let at = from; at < chunk.length; at++) {
    const byte = chunk[at] ?? 0;
    if (byte === QUOTE || byte === BACKSLASH || byte < 0x20) return at;
  }
  return chunk.length;
}

/** Undefined if the number cannot continue with this byte. */
function afterDigit(state: number, byte: number): number | undefined {
  if (isDigit(byte)) {
    if (state === MINUS) return byte === 0x30 ? ZERO : WHOLE;
    if (state === DOT) return FRACTION;
    if (state === EXPONENT || state === SIGN) return POWER;
    return state === ZERO ? undefined : state;
  }
  if (byte === 0x2e) return state === ZERO || state === WHOLE ? DOT : undefined;
  if (byte === 0x65 || byte === 0x45) {
    return state === ZERO || state === WHOLE || state === FRACTION ? EXPONENT : undefined;
  }
  return state === EXPONENT && (byte === 0x2b || byte === 0x2d) ? SIGN : undefined;
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
const isHex = (byte: number): boolean => isDigit(byte) || ((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66);
const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** Smaller inputs have too few parts to be expensive. */
export const SMALL_BYTES = 64 * 1024;
/** Takes a few milliseconds to scan, even before the JIT optimizes the scanner. */
const STEP_BYTES = 128 * 1024;
const MOST_EFFORT = 1_000_000;
const CHEAP_LIMITS = { mostDeep: 1000, mostKeys: 100_000 };
/** Lower limit for client input, which schemas check as well: 400,000 numbers, or 33,000 keys with text values. */
export const MOST_CLIENT_EFFORT = 400_000;
/** For a message between server and runner, which is scanned several times. */
export const MOST_RPC_EFFORT = 200_000;

/**
 * Whether the input, if it is JSON, parses quickly. A long text is cheap; a million objects would block the process, and
 * every client it serves, for seconds.
 */
export function isCheapToParse(json: string | Uint8Array, mostEffort = MOST_EFFORT): boolean {
  if (json.length <= SMALL_BYTES) return true;
  const scan = scanInSteps(typeof json === 'string' ? Buffer.from(json) : json, mostEffort);
  for (;;) {
    const { done, value } = scan.next();
    if (done) return value;
  }
}

/** Like `isCheapToParse`, but yields at points where it may pause. */
export function* scanInSteps(json: Uint8Array, mostEffort = MOST_EFFORT): Generator<undefined, boolean> {
  if (json.length <= SMALL_BYTES) return true;
  const scan = new JsonScanner({ ...CHEAP_LIMITS, mostEffort });
  const begin = isByteOrderMark(json) ? 3 : 0;
  for (let at = begin; at < json.length; at += STEP_BYTES) {
    if (at > begin) yield;
    if (!scan.push(json.subarray(at, at + STEP_BYTES))) break;
  }
  return !scan.isTooMuch;
}

/** A byte order mark is not JSON, but decoders remove it before the text is parsed. */
const isByteOrderMark = ([first, second, third]: Uint8Array): boolean =>
  first === 0xef && second === 0xbb && third === 0xbf;

/** Parses client input. Undefined if it is not JSON or too expensive: the caller reports what it expected. */
export function parseCheapJson(text: string): unknown {
  return isCheapToParse(text, MOST_CLIENT_EFFORT) ? tryParseJson(text) : undefined;
}

/** Undefined if the text is not JSON: the caller reports what it expected. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // the caller reports it
  }
}

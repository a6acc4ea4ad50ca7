/**
 * Scans JSON from untrusted peers byte by byte, within limits and without building values. Also decides whether a text is
 * cheap to parse: JSON.parse can block the process for a minute on a body that fits into one request.
 */

export interface ScanLimits {
  readonly mostDeep: number;
  /** Keys of the outermost object. */
  readonly mostKeys: number;
  /** What it takes to parse, all together: 1 for a text, number or word, and 10 for an object, an array or a key. */
  readonly mostEffort?: number;
}

/** Follows a scan from value to value. It is asked before anything is kept, and is told only what it asked for. */
export interface ScanListener {
  /** A value begins. True where it is a text, and its text is wanted. */
  begin(kind: 'object' | 'array' | 'text' | 'other'): boolean;
  /** Whether the names of keys are wanted here. */
  readonly wantsKeys: boolean;
  /** As it was written, with its quotes. False where it must not be there: nothing that follows is looked at. */
  key(json: string): boolean;
  /** As `key`, of a text that was wanted. One that is longer than `mostKept` comes without its end. */
  text(json: string): boolean;
  /** An object or array ends. */
  close(): void;
  /** Bytes that are kept of a text or key. */
  readonly mostKept: number;
}

/** Where a key of the outermost object is, and its value: each from its first byte to behind its last. */
export interface JsonMember {
  readonly key: readonly [number, number];
  readonly value: readonly [number, number];
}

const [VALUE, FIRST, KEY, FIRST_KEY, COLON, AFTER, STRING, ESCAPE, HEX, WORD] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/** Of a number; at those from ZERO on it may end. */
const [MINUS, DOT, EXPONENT, SIGN, ZERO, WHOLE, FRACTION, POWER] = [10, 11, 12, 13, 14, 15, 16, 17];
const [BROKEN] = [18];
/** As JSON.parse takes its time: a million numbers are there at once, a million keys after a second. */
const [LIGHT, HEAVY] = [1, 10];

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
// Browsers have no Buffer: none is made while this module loads.
const WORDS = ['true', 'false', 'null'].map((word) => new TextEncoder().encode(word));
const NOTHING = new Uint8Array(0);
const ESCAPED = new Set(new TextEncoder().encode('"\\/bfnrt'));

export class JsonScanner {
  readonly members: JsonMember[] = [];
  readonly #limits: ScanLimits;
  readonly #follower: ScanListener | undefined;
  /** The beginning of a text or key that is wanted, from chunks before this one. */
  #kept: Buffer | undefined;
  /** Where it begins; -1 where none is wanted. */
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

  /** False where it is no JSON, or more than may be: nothing that follows can mend that. */
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

  /** Whether it is refused for how much it is, and may be JSON all the same. */
  get isTooMuch(): boolean {
    return this.#isTooMuch;
  }

  /** What it takes to parse so far; see `mostEffort`. */
  get effort(): number {
    return this.#effort;
  }

  /** Whether the outermost value is an object. */
  get isObject(): boolean {
    return this.#objects[1] === 1;
  }

  /** Whether all of it was one value of JSON. */
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
    if (this.#exceeds(byte === 0x7b || byte === 0x5b ? HEAVY : LIGHT)) return this.#tooMuch();
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

  /** Where what is wanted of this chunk begins and ends: no more of it than may be kept. */
  #wantedHere(end: number): readonly [number, number] {
    const from = Math.max(this.#keepFrom, this.#chunkAt) - this.#chunkAt;
    const most = (this.#follower?.mostKept ?? 0) - (this.#kept?.length ?? 0);
    return [from, Math.min(end - this.#chunkAt, from + Math.max(0, most))];
  }

  /** The rest of a text or key is in the next chunk. */
  #keep(): void {
    const piece = this.#chunk?.subarray(...this.#wantedHere(this.#at)) ?? NOTHING;
    this.#kept = Buffer.concat([this.#kept ?? NOTHING, piece]);
  }

  /** False where the follower refuses it. */
  #tellText(): boolean {
    if (this.#keepFrom === -1) return true;
    const [from, to] = this.#wantedHere(this.#at + 1);
    const json = this.#kept
      ? Buffer.concat([this.#kept, this.#chunk?.subarray(from, to) ?? NOTHING]).toString('utf8')
      : (this.#chunk?.toString('utf8', from, to) ?? '');
    this.#keepFrom = -1;
    this.#kept = undefined;
    return (this.#isKey ? this.#follower?.key(json) : this.#follower?.text(json)) ?? true;
  }

  /** What is no plain character. */
  #inString(byte: number): number {
    if (byte === QUOTE) return this.#endString();
    return byte === BACKSLASH ? ESCAPE : BROKEN;
  }

  #endString(): number {
    if (!this.#tellText()) return BROKEN;
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

  /** `behind`: how far its end is from here. */
  #endValue(behind: 0 | 1): number {
    if (this.#depth !== 1 || this.#objects[1] !== 1) return AFTER;
    this.members.push({ key: this.#key, value: [this.#start, this.#at + behind] });
    return this.members.length > this.#limits.mostKeys ? this.#tooMuch() : AFTER;
  }

  #inNumber(byte: number): number {
    const next = afterDigit(this.#state, byte);
    if (next !== undefined) return next;
    if (this.#state < ZERO) return BROKEN;
    // It has ended before this byte, which is looked at as what follows.
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

function kindOf(byte: number): Parameters<ScanListener['begin']>[0] {
  if (byte === QUOTE) return 'text';
  if (byte === 0x7b) return 'object';
  return byte === 0x5b ? 'array' : 'other';
}

/** Texts are most of what is sent. */
function endOfPlain(chunk: Uint8Array, from: number): number {
  for (let at = from; at < chunk.length; at++) {
    const byte = chunk[at] ?? 0;
    if (byte === QUOTE || byte === BACKSLASH || byte < 0x20) return at;
  }
  return chunk.length;
}

/** Undefined where a number cannot go on so. */
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

/** What has fewer bytes has few parts. */
const SMALL_BYTES = 64 * 1024;
const CHEAP_LIMITS = { mostDeep: 1000, mostKeys: 100_000 };
/** Of what a client sends: 400,000 numbers, or 36,000 names with their texts. Schemas look at them once more. */
export const MOST_CLIENT_EFFORT = 400_000;

/**
 * Whether it is parsed in a moment, if it is JSON at all. A long text is light; a million objects
 * would take seconds of everybody's who is served by the same process.
 */
export function isCheapToParse(json: string | Uint8Array, mostEffort = 1_000_000): boolean {
  if (json.length <= SMALL_BYTES) return true;
  const scan = new JsonScanner({ ...CHEAP_LIMITS, mostEffort });
  scan.push(typeof json === 'string' ? Buffer.from(json) : json);
  return !scan.isTooMuch;
}

/** What a client sent. Undefined where it is no JSON, or not light: the caller says what it had asked for. */
export function parseCheapJson(text: string): unknown {
  return isCheapToParse(text, MOST_CLIENT_EFFORT) ? tryParseJson(text) : undefined;
}

/** Undefined where it is none: the caller says what it had asked for. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // told by the caller
  }
}

/** Output of programs and servers as values for Python: JSON that keeps all digits, and bounded text. */

import { giveWay } from '../../lib/event-loop.ts';
import { messageOf, setEntry } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { PyObject, type PyValue } from '../../protocol/py-values.ts';

/** JSON up to this length is parsed at once. */
const SMALL = 32 * 1024;

/** The reviver's context has the text of a number, which the type library lacks. */
const { parse } = JSON as {
  parse(text: string, revive: (key: string, value: PyValue, context: { readonly source?: string }) => PyValue): PyValue;
};

/** The most values in one result. A value of three bytes of JSON can take 200 bytes of memory. */
const MOST_VALUES = 1_000_000;
const TOO_MANY = 'more than a million values. Let the tool return less, or return it as text';

/** Called before a large result is read. Resolves when the session has room for its values. */
export type LargeResultTurn = () => Promise<void>;

const atOnce: LargeResultTurn = async () => {};

/** `what`: the subject of the error, such as "What tools.x wrote". */
export async function parseToolJson(text: string, what: string, turn = atOnce): Promise<PyValue> {
  if (text.length > SMALL) await turn();
  try {
    if (text.length > SMALL) return await readToolJson(text);
    const value = parse(text, (_key, item, { source }) => {
      return typeof item === 'number' && source !== undefined ? numberOf(source) : item;
    });
    if (tooDeep(value, MAX_DEPTH)) throw new SyntaxError(`it is nested deeper than ${MAX_DEPTH}`);
    return value;
  } catch (error) {
    // A RangeError if the nesting exceeds the stack.
    const reason = messageOf(error);
    throw new CellaError('TOOL_FAILED', `${what} is not usable JSON: ${reason}.`, { cause: error });
  }
}

/** A line break at the end begins no line. */
export async function readLines(text: string, what: string, turn = atOnce): Promise<string[]> {
  if (text.length > SMALL) await turn();
  const lines: string[] = [];
  for (let from = 0; from < text.length; ) {
    if (lines.length === MOST_VALUES) throw new CellaError('TOOL_FAILED', `${what} has ${TOO_MANY}.`);
    const end = text.indexOf('\n', from);
    lines.push(end < 0 ? text.slice(from) : text.slice(from, end));
    from = end < 0 ? text.length : end + 1;
    if (lines.length % STEP === 0) await giveWay();
  }
  return lines;
}

function tooDeep(value: PyValue, left: number): boolean {
  if (value === null || typeof value !== 'object') return false;
  return left === 0 || Object.values(value).some((item: PyValue) => tooDeep(item, left - 1));
}

/** Why the value cannot be written as JSON, or undefined. */
export function jsonProblem(value: PyValue, { big }: { big: boolean }): string | undefined {
  if (value instanceof Uint8Array) return 'it holds bytes';
  if (value instanceof PyObject) return `it holds ${value.type}`;
  if (typeof value === 'bigint' && !big) return 'it contains an integer of more than 53 bits';
  if (typeof value === 'number' && !Number.isFinite(value)) return `it holds ${value}`;
  if (typeof value === 'string' && !value.isWellFormed()) return 'it contains text with a lone surrogate';
  if (value === null || typeof value !== 'object') return undefined;
  for (const item of Object.values(value)) {
    const problem = jsonProblem(item, { big });
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The deepest nesting that kernels accept. */
export const MAX_DEPTH = 200;
/** The most digits that a kernel may send. */
const MOST_DIGITS = 10_000;
/** How many values are read in one step. */
const STEP = 1000;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS = { true: true, false: false, null: null } as const;

/** A list or dict that is being read. */
type OpenContainer = { readonly list: PyValue[] } | { readonly dict: { [name: string]: PyValue }; name: string };

/** Throws a SyntaxError if the text is not JSON, is nested too deeply, or has too long a number or too many values. */
export async function readToolJson(text: string): Promise<PyValue> {
  const reader = new JsonTextReader(text);
  while (!reader.step()) await giveWay();
  return reader.value;
}

/** Integers keep all their digits. */
export function numberOf(source: string): number | bigint {
  const value = Number(source);
  if (Number.isSafeInteger(value) || !/^-?\d+$/.test(source)) return value;
  if (source.length > MOST_DIGITS) throw new SyntaxError(`it has a number of more than ${MOST_DIGITS} digits`);
  return BigInt(source);
}

class JsonTextReader {
  readonly #text: string;
  #at = 0;
  #values = 0;
  readonly #open: OpenContainer[] = [];
  value: PyValue = null;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads some values. Returns true at the end. */
  step(): boolean {
    for (let left = STEP; left > 0; left--) {
      if (this.#begin()) continue;
      // A value is complete; it may be the last in its list or dict.
      while (this.#open.length > 0 && this.#ends());
      if (this.#open.length > 0) continue;
      if (this.#next() !== '') throw this.#wrong();
      return true;
    }
    return false;
  }

  /** Reads a value. Returns false if it is complete, true if it is a list or dict whose first value comes next. */
  #begin(): boolean {
    const next = this.#next();
    if (next === '[' || next === '{') return this.#enter(next);
    if (next === '"') this.#keep(this.#string());
    else if (next === '-' || (next >= '0' && next <= '9')) this.#keep(numberOf(this.#match(NUMBER)));
    else this.#keep(this.#word());
    return false;
  }

  #enter(bracket: '[' | '{'): boolean {
    this.#at++;
    const open: OpenContainer = bracket === '[' ? { list: [] } : { dict: {}, name: '' };
    this.#keep('list' in open ? open.list : open.dict);
    if (this.#next() === ('list' in open ? ']' : '}')) {
      this.#at++;
      return false;
    }
    if (this.#open.length === MAX_DEPTH) throw new SyntaxError(`it is nested deeper than ${MAX_DEPTH}`);
    this.#open.push(open);
    if ('dict' in open) this.#readName(open);
    return true;
  }

  /** After a value: returns whether its list or dict ends. If another value follows in a dict, reads its key. */
  #ends(): boolean {
    const open = this.#open.at(-1) as OpenContainer;
    const next = this.#next();
    this.#at++;
    if (next === ('list' in open ? ']' : '}')) return this.#open.pop() !== undefined;
    if (next !== ',') throw this.#wrong(-1);
    if ('dict' in open) this.#readName(open);
    return false;
  }

  #readName(open: OpenContainer & { name: string }): void {
    if (this.#next() !== '"') throw this.#wrong();
    open.name = this.#string();
    if (this.#next() !== ':') throw this.#wrong();
    this.#at++;
  }

  #keep(value: PyValue): void {
    if (++this.#values > MOST_VALUES) throw new SyntaxError(`it has ${TOO_MANY}`);
    const open = this.#open.at(-1);
    if (open === undefined) this.value = value;
    else if ('list' in open) open.list.push(value);
    else setEntry(open.dict, open.name, value);
  }

  #string(): string {
    const from = this.#at;
    for (let end = this.#text.indexOf('"', from + 1); end >= 0; end = this.#text.indexOf('"', end + 1)) {
      let before = end - 1;
      while (this.#text[before] === '\\') before--;
      // After an odd number of backslashes, the quote belongs to the text.
      if ((end - before) % 2 === 0) continue;
      this.#at = end + 1;
      return JSON.parse(this.#text.slice(from, this.#at));
    }
    throw new SyntaxError('a text in it has no end');
  }

  #word(): PyValue {
    const word = (['true', 'false', 'null'] as const).find((one) => this.#text.startsWith(one, this.#at));
    if (word === undefined) throw this.#wrong();
    this.#at += word.length;
    return WORDS[word];
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ''] = pattern.exec(this.#text) ?? [];
    if (found === '' && pattern !== SPACE) throw this.#wrong();
    this.#at += found.length;
    return found;
  }

  /** The first character after spaces, or empty at the end. */
  #next(): string {
    const letter = this.#text[this.#at] ?? '';
    if (letter > ' ' || letter === '') return letter;
    this.#match(SPACE);
    return this.#text[this.#at] ?? '';
  }

  #wrong(by = 0): SyntaxError {
    const at = this.#at + by;
    return new SyntaxError(at < this.#text.length ? `it is invalid at character ${at}` : 'it ends too early');
  }
}

const MAX_SHOWN_CHARACTERS = 4000;

/** The end of the output, where programs say what went wrong. */
export function tail(text: string): string {
  return text.length <= MAX_SHOWN_CHARACTERS ? text : `…${text.slice(-MAX_SHOWN_CHARACTERS).toWellFormed()}`;
}

/** The line that is added to truncated output. */
export function cutNote(bytes: number): string {
  return `\n[${bytes} more bytes are missing: the tool wrote more than its output_limit]`;
}

/** Removes an incomplete character at the end. */
export function decodeWhole(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true });
}

/** Allows tab, the only control character in a header. */
export function hasControl(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  return /[\0-\x08\x0a-\x1f\x7f]/.test(text);
}

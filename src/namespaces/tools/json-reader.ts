/** Reads JSON as `JSON.parse` does, but step by step: a large one does not keep others from their turn. */

import { giveWay } from '../../lib/event-loop.ts';
import type { PyValue } from '../../protocol/kernel-marshal.ts';

/** Kernels take values that are nested no deeper than this. */
export const DEEPEST = 200;
/** As many digits as a kernel may send. */
const MOST_DIGITS = 10_000;
/** Values in one step. */
const STEP = 1000;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const WORDS = { true: true, false: false, null: null } as const;

/** A list or dict that has not ended. */
type Open = { readonly list: PyValue[] } | { readonly dict: { [name: string]: PyValue }; name: string };

/** Throws a SyntaxError where it is none, is nested too deeply or has a number that is too long. */
export async function readJson(text: string): Promise<PyValue> {
  const reader = new Reader(text);
  while (!reader.step()) await giveWay();
  return reader.value;
}

/** Whole numbers keep all their digits. */
export function numberOf(source: string): number | bigint {
  const value = Number(source);
  if (Number.isSafeInteger(value) || !/^-?\d+$/.test(source)) return value;
  if (source.length > MOST_DIGITS) throw new SyntaxError(`it has a number of more than ${MOST_DIGITS} digits`);
  return BigInt(source);
}

class Reader {
  readonly #text: string;
  #at = 0;
  readonly #open: Open[] = [];
  value: PyValue = null;

  constructor(text: string) {
    this.#text = text;
  }

  /** Reads some values. True when all is read. */
  step(): boolean {
    for (let left = STEP; left > 0; left--) {
      if (this.#begin()) continue;
      // A value is there; it may be the last of those around it.
      while (this.#open.length > 0 && this.#ends());
      if (this.#open.length > 0) continue;
      if (this.#next() !== '') throw this.#wrong();
      return true;
    }
    return false;
  }

  /** Reads a value. False where it is whole; true where it is a list or dict, and its first value comes next. */
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
    const open: Open = bracket === '[' ? { list: [] } : { dict: {}, name: '' };
    this.#keep('list' in open ? open.list : open.dict);
    if (this.#next() === ('list' in open ? ']' : '}')) {
      this.#at++;
      return false;
    }
    if (this.#open.length === DEEPEST) throw new SyntaxError(`it is nested deeper than ${DEEPEST}`);
    this.#open.push(open);
    if ('dict' in open) this.#readName(open);
    return true;
  }

  /** After a value: whether the innermost ends here, too. Where another value follows, its name is read. */
  #ends(): boolean {
    const open = this.#open.at(-1) as Open;
    const next = this.#next();
    this.#at++;
    if (next === ('list' in open ? ']' : '}')) return this.#open.pop() !== undefined;
    if (next !== ',') throw this.#wrong(-1);
    if ('dict' in open) this.#readName(open);
    return false;
  }

  #readName(open: Open & { name: string }): void {
    if (this.#next() !== '"') throw this.#wrong();
    open.name = this.#string();
    if (this.#next() !== ':') throw this.#wrong();
    this.#at++;
  }

  #keep(value: PyValue): void {
    const open = this.#open.at(-1);
    if (open === undefined) this.value = value;
    else if ('list' in open) open.list.push(value);
    // `__proto__` must become a key like any other.
    else if (open.name === '__proto__')
      Object.defineProperty(open.dict, open.name, { value, enumerable: true, configurable: true, writable: true });
    else open.dict[open.name] = value;
  }

  #string(): string {
    const from = this.#at;
    for (let end = this.#text.indexOf('"', from + 1); end >= 0; end = this.#text.indexOf('"', end + 1)) {
      let before = end - 1;
      while (this.#text[before] === '\\') before--;
      // After an odd number of backslashes, the quote is a part of the text.
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

  /** The first letter after spaces; empty at the end. */
  #next(): string {
    const letter = this.#text[this.#at] ?? '';
    if (letter > ' ' || letter === '') return letter;
    this.#match(SPACE);
    return this.#text[this.#at] ?? '';
  }

  #wrong(by = 0): SyntaxError {
    const at = this.#at + by;
    return new SyntaxError(at < this.#text.length ? `it is none at character ${at}` : 'it ends too early');
  }
}

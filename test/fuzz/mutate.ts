/** Recorded inputs, and mutations of them: the same for a seed and a number, on every machine. */

import { readdirSync, readFileSync } from 'node:fs';

const CORPUS = new URL('./corpus/', import.meta.url);
const LARGEST_INPUT = 16 * 1024;
/** The most that is taken out, or put in twice. */
const LONGEST_PIECE = 32;
const MOST_STEPS = 5;
const NUMBERS = [0, 1, -1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, -0x80000000, 50_000, 51_001, 2215, 2216];

/** One file an input; of `.txt`, one line. */
export function corpusOf(name: string): Buffer[] {
  const folder = new URL(`${name}/`, CORPUS);
  return readdirSync(folder)
    .toSorted()
    .flatMap((file) => {
      const bytes = readFileSync(new URL(file, folder));
      return file.endsWith('.txt')
        ? bytes
            .toString()
            .split('\n')
            .filter(Boolean)
            .map((line) => Buffer.from(line))
        : [bytes];
    });
}

/** All inputs are made in the same memory: each is good until the next one is made. */
export class Mutator {
  readonly #corpus: readonly Buffer[];
  readonly #words: readonly Buffer[];
  readonly #bytes = Buffer.alloc(2 * LARGEST_INPUT);
  #length = 0;
  #state = 1;

  constructor(corpus: readonly Buffer[], words: readonly string[]) {
    this.#corpus = corpus.map((each) => each.subarray(0, LARGEST_INPUT));
    // Characters up to 0xff are bytes.
    this.#words = words.map((word) => Buffer.from(word, /[^\0-\xff]/.test(word) ? 'utf8' : 'latin1'));
  }

  input(seed: number, number: number): Buffer {
    this.#begin(seed, number);
    const recorded = this.#pick(this.#corpus);
    this.#length = recorded.copy(this.#bytes);
    for (let steps = 1 + this.#below(MOST_STEPS); steps > 0; steps--) {
      this.#step();
      if (this.#length > LARGEST_INPUT) this.#length = LARGEST_INPUT;
    }
    return this.#bytes.subarray(0, this.#length);
  }

  #step(): void {
    const bytes = this.#bytes;
    const at = this.#below(this.#length + 1);
    const to = Math.min(this.#length, at + 1 + this.#below(LONGEST_PIECE));
    switch (this.#below(8)) {
      case 0:
        if (at < this.#length) bytes[at] = (bytes[at] ?? 0) ^ (1 << this.#below(8));
        break;
      case 1:
        if (at < this.#length) bytes[at] = this.#below(256);
        break;
      case 2:
        bytes.copyWithin(at, to, this.#length);
        this.#length -= to - at;
        break;
      case 3:
        bytes.copyWithin(to, at, this.#length);
        this.#length += to - at;
        break;
      case 4:
        if (at + 4 <= this.#length) bytes.writeInt32LE(NUMBERS[this.#below(NUMBERS.length)] ?? 0, at);
        break;
      case 5: {
        const word = this.#pick(this.#words);
        bytes.copyWithin(at + word.length, at, this.#length);
        this.#length += word.copy(bytes, at);
        break;
      }
      case 6:
        if (at > 0 && this.#below(4) === 0) this.#length = at;
        break;
      default: {
        const other = this.#pick(this.#corpus);
        this.#length = at + other.copy(bytes, at, this.#below(other.length + 1));
      }
    }
  }

  #pick(from: readonly Buffer[]): Buffer {
    return from[this.#below(from.length)] ?? NOTHING;
  }

  #begin(seed: number, number: number): void {
    let x = (Math.imul(seed, 0x9e3779b1) ^ number) >>> 0;
    x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
    x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
    this.#state = (x ^ (x >>> 16)) >>> 0 || 1;
    for (let n = 0; n < 4; n++) this.#below(2);
  }

  #below(limit: number): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return limit === 0 ? 0 : this.#state % limit;
  }
}

const NOTHING = Buffer.alloc(0);

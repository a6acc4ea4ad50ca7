/** Mutates recorded inputs, gives them to a parser, and watches for what must not be: other errors, stalls, growth. */

import { readdirSync, readFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';
import { stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

export interface Target {
  readonly name: string;
  /** The parser's files, below `src`, or functions of them. */
  readonly parser: readonly { readonly file: string; readonly functions?: readonly string[] }[];
  /** Pieces that inputs are made of. */
  readonly words?: readonly string[];
  /** Throws what is no typed error. */
  readonly take: (input: Buffer) => void;
}

export interface Report {
  readonly name: string;
  readonly inputs: number;
  readonly slowestMs: number;
  readonly grownBytes: number;
  /** Lines of the parser that ran, of those that can. */
  readonly coverage: readonly { readonly file: string; readonly percent: number; readonly missed: readonly number[] }[];
}

const src = new URL('../../src/', import.meta.url);
const CORPUS = new URL('./corpus/', import.meta.url);
/** How long an input may take: so much, and so much for each of its bytes. Slower ones are tried again: others may have had the processor. */
const MOST_MS = 20;
const MOST_MS_PER_BYTE = 0.002;
const TRIES = 5;
const MOST_GROWTH = 32 * 1024 * 1024;
const ROUND = 50_000;
/** Coverage slows everything down: it is taken over the first inputs. */
const COVERED_INPUTS = 150_000;
const LARGEST_INPUT = 16 * 1024;

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

/** Numbers that depend on a seed alone. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = (seed ^ 0x9e3779b9) >>> 0 || 1;
    for (let n = 0; n < 4; n++) this.below(2);
  }

  below(limit: number): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x >>> 0;
    return this.#state % limit;
  }
}

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

const NUMBERS = [0, 1, -1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fffffff, -0x80000000, 50_000, 51_001, 2215, 2216];

/** The same for a seed and a number, on every machine. */
export function mutate(corpus: readonly Buffer[], words: readonly string[], random: Random): Buffer {
  const pick = () => corpus[random.below(corpus.length)] ?? Buffer.alloc(0);
  let bytes = Buffer.from(pick());
  for (let count = random.below(6); count > 0; count--) {
    const at = random.below(bytes.length + 1);
    const to = Math.min(bytes.length, at + 1 + random.below(32));
    const [before, after] = [bytes.subarray(0, at), bytes.subarray(to)];
    switch (random.below(8)) {
      case 0:
        if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << random.below(8));
        break;
      case 1:
        if (at < bytes.length) bytes[at] = random.below(256);
        break;
      case 2:
        bytes = Buffer.concat([before, after]);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
        break;
      case 4:
        if (at + 4 <= bytes.length) bytes.writeInt32LE(NUMBERS[random.below(NUMBERS.length)] ?? 0, at);
        break;
      case 5:
        bytes = Buffer.concat([before, Buffer.from(words[random.below(words.length)] ?? ''), bytes.subarray(at)]);
        break;
      case 6:
        bytes = before.length > 0 && random.below(4) === 0 ? Buffer.from(before) : bytes;
        break;
      default: {
        const other = pick();
        bytes = Buffer.concat([before, other.subarray(random.below(other.length + 1))]);
      }
    }
    if (bytes.length > LARGEST_INPUT) bytes = bytes.subarray(0, LARGEST_INPUT);
  }
  return bytes;
}

export interface Bounds {
  readonly seed: number;
  readonly inputs: number;
  readonly seconds?: number;
}

/** `load` imports the parser: what is loaded before coverage begins is not counted. */
export async function fuzz(
  load: () => Promise<Target>,
  { seed, inputs, seconds = Number.POSITIVE_INFINITY }: Bounds,
): Promise<Report> {
  const inspector = new Session();
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const target = await load();
  const corpus = corpusOf(target.name);
  let [slowestMs, done, coverage, settled] = [0, 0, [] as Report['coverage'], 0];
  const until = performance.now() + seconds * 1000;
  const measure = async () => {
    coverage = await covered(inspector, target);
    await inspector.post('Profiler.stopPreciseCoverage');
    inspector.disconnect();
  };
  const once = (input: Buffer, index: number): number => {
    const begun = performance.now();
    try {
      target.take(input);
    } catch (cause) {
      throw new Error(`${target.name}: input ${index} of seed ${seed}: ${input.toString('base64')}`, { cause });
    }
    return performance.now() - begun;
  };
  for (; done < inputs && performance.now() < until; done++) {
    const input =
      done < corpus.length ? (corpus[done] as Buffer) : mutate(corpus, target.words ?? [''], new Random(seed + done));
    const allowed = MOST_MS + input.length * MOST_MS_PER_BYTE;
    let took = once(input, done);
    for (let tries = 0; took > allowed && tries < TRIES; tries++) took = Math.min(took, once(input, done));
    if (took > allowed)
      throw new Error(`${target.name}: input ${done} of seed ${seed} took ${took} ms: ${input.toString('base64')}`);
    slowestMs = Math.max(slowestMs, took);
    if (done === COVERED_INPUTS) await measure();
    if (done % ROUND !== ROUND - 1) continue;
    collect();
    settled ||= process.memoryUsage().heapUsed;
  }
  if (done <= COVERED_INPUTS) await measure();
  collect();
  const grownBytes = Math.max(0, process.memoryUsage().heapUsed - (settled || process.memoryUsage().heapUsed));
  if (grownBytes > MOST_GROWTH) throw new Error(`${target.name}: ${grownBytes} bytes are left of ${done} inputs`);
  return { name: target.name, inputs: done, slowestMs, grownBytes, coverage };
}

async function covered(inspector: Session, { parser }: Target): Promise<Report['coverage']> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  return parser.map(({ file, functions }) => {
    const url = new URL(file, src).href;
    // Node takes types out and leaves blanks: every place stays what it was.
    const text = stripTypeScriptTypes(readFileSync(fileURLToPath(url), 'utf8'));
    const all = result.findLast((script) => script.url === url)?.functions ?? [];
    const within = functions && all.filter(({ functionName }) => functions.includes(functionName));
    const ranges = all.flatMap((one) => one.ranges);
    const missed: number[] = [];
    let [at, lines] = [0, 0];
    let comment = false;
    for (const [index, line] of text.split('\n').entries()) {
      const code = line.trim();
      const [from, to] = [at + line.length - line.trimStart().length, at + line.trimEnd().length];
      at += line.length + 1;
      const isComment = comment || code.startsWith('//') || code.startsWith('/*');
      comment = (comment || code.startsWith('/*')) && !code.includes('*/');
      // Brackets alone are nothing that could run.
      if (isComment || !/\w/.test(code)) continue;
      if (within && !within.some(({ ranges: [own] }) => own && own.startOffset <= from && to <= own.endOffset))
        continue;
      lines += 1;
      const inner = ranges
        .filter(({ startOffset, endOffset }) => startOffset <= from && to <= endOffset)
        .toSorted((one, other) => one.endOffset - one.startOffset - (other.endOffset - other.startOffset))[0];
      if (inner?.count === 0) missed.push(index + 1);
    }
    return { file, percent: lines === 0 ? 0 : Math.round((1000 * (lines - missed.length)) / lines) / 10, missed };
  });
}

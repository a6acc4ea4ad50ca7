/** Gives mutated inputs to a parser, and watches for what must not be: other errors, stalls, growth. */

import { Session } from 'node:inspector/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { workedMs } from '../../src/lib/event-loop.ts';
import { covered, type FileCoverage, type ParserFile } from './coverage.ts';
import { corpusOf, Mutator } from './mutate.ts';

export interface Target {
  readonly name: string;
  readonly parser: readonly ParserFile[];
  /** Pieces that inputs are made of. */
  readonly words?: readonly string[];
  /** Throws what is no typed error. The input is only lent: its memory is used again for the next one. */
  readonly take: (input: Buffer) => void | Promise<void>;
}

export interface Report {
  readonly name: string;
  /** The number of the input that would be next. */
  readonly next: number;
  readonly slowestMs: number;
  readonly grownBytes: number;
  readonly coverage: readonly FileCoverage[];
}

/** How long an input may take: so much, and so much for each of its bytes. */
const MOST_MS = 20;
const MOST_MS_PER_BYTE = 0.002;
/** Slower ones are tried again, by the time of the processor: others may have had it. The fastest try counts. */
const SUSPECT_MS = 2;
const TRIES = 5;
const MOST_GROWTH = 32 * 1024 * 1024;
/** What is held after so many inputs is what the parser needs for good. */
const SETTLED_AFTER = 2000;
const LOOKED_AFTER_EVERY = 1_000_000;
const TOLD_EVERY_MS = 60_000;
/** So many are tried where lines are counted, however long they take: on a busy machine the time alone says nothing. */
const LEAST_COVERED = 5000;
/** Between two looks at the clock. */
const BATCH = 256;

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');

export interface Bounds {
  readonly seed: number;
  /** The numbers of the first input, and of the one behind the last. */
  readonly from: number;
  readonly to: number;
  readonly seconds: number;
  /** Whether lines are counted, which slows everything down for as long as the process lives. */
  readonly covered: boolean;
  readonly onProgress: (next: number) => void;
}

/** `load` imports the parser: what is loaded before coverage begins is not counted. */
export async function fuzz(load: () => Promise<Target>, bounds: Bounds): Promise<Report> {
  const { seed, from, to, seconds, onProgress } = bounds;
  const inspector = bounds.covered ? await beginCoverage() : undefined;
  const target = await load();
  const corpus = corpusOf(target.name);
  const mutator = new Mutator(corpus, target.words ?? []);
  const growth = new Growth(target.name);
  const until = performance.now() + seconds * 1000;
  let [slowestMs, next, toldAt] = [0, from, performance.now()];
  const nameOf = (input: Buffer) => `${target.name}: input ${next} of seed ${seed}: ${input.toString('base64')}`;
  const failed = (input: Buffer, cause: unknown): never => {
    throw new Error(nameOf(input), { cause });
  };
  // Most parsers answer at once, and nothing is waited for that need not be.
  const take = (input: Buffer): number | Promise<number> => {
    const begun = performance.now();
    try {
      const working = target.take(input);
      if (working)
        return working.then(
          () => performance.now() - begun,
          (cause) => failed(input, cause),
        );
    } catch (cause) {
      failed(input, cause);
    }
    return performance.now() - begun;
  };
  const least = bounds.covered ? Math.min(to, from + LEAST_COVERED) : from;
  while (next < least || (next < to && performance.now() < until)) {
    for (const end = Math.min(to, next + BATCH); next < end; next++) {
      const input = next < corpus.length ? (corpus[next] as Buffer) : mutator.input(seed, next);
      const first = take(input);
      let took = typeof first === 'number' ? first : await first;
      for (let tries = 0; took > SUSPECT_MS && tries < TRIES; tries++) {
        const begun = workedMs();
        await take(input);
        took = Math.min(took, workedMs() - begun);
      }
      if (took > MOST_MS + input.length * MOST_MS_PER_BYTE) throw new Error(`${nameOf(input)} took ${took} ms`);
      if (took > slowestMs) slowestMs = took;
      growth.count();
    }
    if (performance.now() - toldAt < TOLD_EVERY_MS) continue;
    toldAt = performance.now();
    onProgress(next);
  }
  const grownBytes = growth.look();
  return {
    name: target.name,
    next,
    slowestMs,
    grownBytes,
    coverage: inspector ? await covered(inspector, target) : [],
  };
}

/** What is loaded before is not counted. */
export async function beginCoverage(): Promise<Session> {
  const inspector = new Session();
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  return inspector;
}

/** What is held that was not held before: objects, and memory outside of the heap. */
class Growth {
  readonly #name: string;
  #inputs = 0;
  #settled: number | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  count(): void {
    this.#inputs++;
    if (this.#inputs === SETTLED_AFTER) this.#settled = held();
    else if (this.#inputs % LOOKED_AFTER_EVERY === 0) this.look();
  }

  look(): number {
    const grown = this.#settled === undefined ? 0 : Math.max(0, held() - this.#settled);
    if (grown > MOST_GROWTH) throw new Error(`${this.#name}: ${grown} bytes are left of ${this.#inputs} inputs`);
    return grown;
  }
}

function held(): number {
  collect();
  // The memory outside of the heap is given back in the background, and counted as held until the next collection.
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

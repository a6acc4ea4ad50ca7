/** Samples and numbers from them. */

import type { Times } from './result.ts';

export async function timed<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly value: T }> {
  const begin = performance.now();
  const value = await work();
  return { ms: performance.now() - begin, value };
}

/** Milliseconds of each, one after the other. */
export async function repeated(times: number, ask: () => Promise<void>): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < times; i++) samples.push((await timed(ask)).ms);
  return samples;
}

/** Nearest rank: always one of the samples, so a p99 of few samples is their worst. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const value = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (value === undefined) throw new RangeError('percentile of no samples');
  return value;
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const upper = sorted[Math.floor(sorted.length / 2)];
  const lower = sorted[Math.ceil(sorted.length / 2) - 1];
  if (upper === undefined || lower === undefined) throw new RangeError('median of no samples');
  return (lower + upper) / 2;
}

/** Keeps as many digits as a measurement carries, so that the JSON can be read. */
export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

export function compareTimes(cella: readonly number[], ipykernel: readonly number[]): Times {
  return {
    cellaMs: rounded(median(cella)),
    ipykernelMs: rounded(median(ipykernel)),
    ratio: rounded(median(ipykernel) / median(cella)),
    cellaP95Ms: rounded(percentile(cella, 95)),
    ipykernelP95Ms: rounded(percentile(ipykernel, 95)),
  };
}

/** The resident memory of a server over time, and how much it grows after it has had time to come to rest. */

import type { Served } from '../support/served.ts';

const EVERY_MS = 250;
const TELL_MS = 5000;

export class Watch implements Disposable {
  readonly #samples: number[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(served: Served, tell: (mb: number) => void) {
    this.#timer = setInterval(() => {
      this.#samples.push(served.residentMb);
      if (this.#samples.length % (TELL_MS / EVERY_MS) === 1) tell(served.residentMb);
    }, EVERY_MS);
  }

  /** All samples, in megabytes. */
  stop(): readonly number[] {
    clearInterval(this.#timer);
    return this.#samples;
  }

  [Symbol.dispose](): void {
    this.stop();
  }
}

/**
 * The tenth after the half against the last tenth, each by its mean: a heap that is collected now and then goes up and
 * down all the time.
 */
export function growthOf(samples: readonly number[]): { halfMb: number; endMb: number; growth: number } {
  const half = Math.floor(samples.length / 2);
  const tenth = Math.max(1, Math.floor(samples.length / 10));
  const halfMb = mean(samples.slice(half, half + tenth));
  const endMb = mean(samples.slice(-tenth));
  return { halfMb, endMb, growth: endMb / halfMb - 1 };
}

function mean(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

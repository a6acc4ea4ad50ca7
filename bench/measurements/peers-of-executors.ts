/** What the starts of containers and of WebAssembly are compared with: `docker run`, and Pyodide without a snapshot. */

import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { kernelPackage } from '../../src/interpreter/package-file.ts';
import { timed } from '../clock.ts';
import type { BenchEngine } from '../engine.ts';
import { atRest } from '../processes.ts';
import type { Progress } from '../progress.ts';
import { median, rounded } from '../statistics.ts';

export function measureDockerRun(engine: BenchEngine, rounds: number, progress: Progress): Promise<number> {
  return measure(rounds, progress, () => engine.dockerRun());
}

export function measureColdPyodide(rounds: number, progress: Progress): Promise<number> {
  return measure(rounds, progress, async () => {
    const worker = new Worker(new URL('../cold-pyodide.mjs', import.meta.url), { workerData: kernelPackage() });
    await once(worker, 'message');
    await worker.terminate();
  });
}

async function measure(rounds: number, progress: Progress, work: () => Promise<void>): Promise<number> {
  const samples: number[] = [];
  // The first is a warm-up.
  for (let round = 0; round <= rounds; round++) {
    await atRest();
    const { ms } = await timed(work);
    if (round > 0) samples.push(ms);
    progress.tick(round, rounds);
  }
  return rounded(median(samples));
}

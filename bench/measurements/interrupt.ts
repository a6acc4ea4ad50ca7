/** From the call of interrupt to the result, of code that computes without end. */

import type { Session } from '../../src/index.ts';
import { timed } from '../clock.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { percentile, rounded } from '../statistics.ts';
import type { Subjects } from '../subjects.ts';

export async function measureInterrupt(
  subjects: Subjects,
  plan: Plan['interrupt'],
  progress: Progress,
): Promise<Kernels['interrupt']> {
  const session = await subjects.cella();
  const samples: number[] = [];
  await interruptOnce(session);
  for (let round = 0; round < plan.rounds; round++) {
    samples.push(await interruptOnce(session));
    progress.tick(round + 1, plan.rounds);
  }
  await subjects.end(session);
  return { p50Ms: rounded(percentile(samples, 50)), p99Ms: rounded(percentile(samples, 99)) };
}

async function interruptOnce(session: Session): Promise<number> {
  const running = Promise.withResolvers<void>();
  const result = session.run('print("running", flush=True)\nwhile True: pass', {
    onEvent: (event) => {
      if (event.type === 'stdout') running.resolve();
    },
  });
  // Code that ends before it was interrupted shows in the status below.
  result.then(() => running.resolve(), running.reject);
  await running.promise;
  const { ms, value } = await timed(async () => {
    await session.interrupt();
    return result;
  });
  if (value.status !== 'interrupted') throw new Error(`Interrupted code ended as ${value.status}.`);
  return ms;
}

/** From the call of open to the first result, where a spare waits. */

import { timed } from '../clock.ts';
import type { Plan } from '../plan.ts';
import { atRest } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

export async function measureSpare(
  subjects: Subjects,
  plan: Plan['spare'],
  progress: Progress,
): Promise<Kernels['spare']> {
  const samples: number[] = [];
  await firstResult(subjects);
  for (let round = 0; round < plan.rounds; round++) {
    samples.push(await firstResult(subjects));
    progress.tick(round + 1, plan.rounds);
  }
  return { firstResultMs: rounded(median(samples)), p95Ms: rounded(percentile(samples, 95)) };
}

async function firstResult(subjects: Subjects): Promise<number> {
  // The spare that takes the place of the last one is made in the background: at rest, it is there.
  await atRest();
  const { ms, value } = await timed(async () => {
    const session = await subjects.cella({ spares: 2 });
    await runOk(session, '1+1');
    return session;
  });
  await subjects.end(value);
  return ms;
}

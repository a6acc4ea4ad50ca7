/** From the call of open to the first result, where a spare waits: in a host at work, and in one that has come to rest. */

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
  const other = await subjects.cella({ spares: 2 });
  const work = async () => {
    for (let cell = 0; cell < plan.cellsBefore; cell++) await runOk(other, 'x=1');
  };
  const rest = async () => {};
  for (let round = 0; round < plan.warmUps; round++) await firstResult(subjects, work);
  const atWork: number[] = [];
  const afterRest: number[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    atWork.push(await firstResult(subjects, work));
    afterRest.push(await firstResult(subjects, rest));
    progress.tick(round + 1, plan.rounds);
  }
  await subjects.end(other);
  return {
    firstResultMs: rounded(median(atWork)),
    p95Ms: rounded(percentile(atWork, 95)),
    afterRestMs: rounded(median(afterRest)),
    afterRestP95Ms: rounded(percentile(afterRest, 95)),
  };
}

async function firstResult(subjects: Subjects, before: () => Promise<void>): Promise<number> {
  // The spare that takes the place of the last one is made in the background: at rest, it is there.
  await atRest();
  await before();
  const { ms, value } = await timed(async () => {
    const session = await subjects.cella({ spares: 2 });
    await runOk(session, '1+1');
    return session;
  });
  await subjects.end(value);
  return ms;
}

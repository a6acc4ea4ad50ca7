/** From nothing to a kernel that answers: Cella without a spare, ipykernel as a fresh process. */

import { timed } from '../clock.ts';
import type { Plan } from '../plan.ts';
import { atRest } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Times } from '../result.ts';
import type { Subject, Subjects } from '../subjects.ts';
import { compareTimes } from '../times.ts';

export async function measureStart(subjects: Subjects, plan: Plan['start'], progress: Progress): Promise<Times> {
  const cella: number[] = [];
  const ipykernel: number[] = [];
  const startCella = () => startOnce(subjects, () => subjects.cella());
  const startIPykernel = () => startOnce(subjects, () => subjects.ipykernel());
  await startCella();
  await startIPykernel();
  for (let round = 0; round < plan.rounds; round++) {
    for (let i = 0; i < plan.cellaPerRound; i++) cella.push(await startCella());
    ipykernel.push(await startIPykernel());
    progress.tick(round + 1, plan.rounds);
  }
  return compareTimes(cella, ipykernel);
}

async function startOnce(subjects: Subjects, start: () => Promise<Subject>): Promise<number> {
  await atRest();
  const { ms, value } = await timed(start);
  await subjects.end(value);
  return ms;
}

/** The smallest cell, sent and answered, in kernels that are warm. */

import { timed } from '../clock.ts';
import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Times } from '../result.ts';
import { runOk, type Subjects } from '../subjects.ts';
import { compareTimes } from '../times.ts';

export async function measureRoundTrip(
  subjects: Subjects,
  plan: Plan['roundTrip'],
  progress: Progress,
): Promise<Times> {
  await using pair = await subjects.pair();
  const askCella = () => runOk(pair.cella, 'x=1');
  const askIPykernel = () => pair.ipykernel.run('x=1');
  await repeated(plan.warmUpCells, askCella);
  await repeated(plan.warmUpCells, askIPykernel);
  const cella: number[] = [];
  const ipykernel: number[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    cella.push(...(await repeated(plan.cellsPerRound, askCella)));
    ipykernel.push(...(await repeated(plan.cellsPerRound, askIPykernel)));
    progress.tick(round + 1, plan.rounds);
  }
  return compareTimes(cella, ipykernel);
}

export async function repeated(times: number, ask: () => Promise<void>): Promise<number[]> {
  const samples: number[] = [];
  for (let i = 0; i < times; i++) samples.push((await timed(ask)).ms);
  return samples;
}

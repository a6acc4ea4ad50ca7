/** Private memory of one more kernel that has run one cell: of Cella every process of its sandbox, not the template. */

import { memoryOf } from '../memory.ts';
import type { Plan } from '../plan.ts';
import { atRest, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

export async function measureMemory(
  subjects: Subjects,
  plan: Plan['memory'],
  progress: Progress,
): Promise<Kernels['memory']> {
  const cella = await ofCella(subjects, plan.kernels);
  const ipykernel: number[] = [];
  for (let i = 0; i < plan.kernels; i++) {
    ipykernel.push(await ofIPykernel(subjects));
    progress.tick(i + 1, plan.kernels);
  }
  return {
    cellaMb: rounded(median(cella)),
    ipykernelMb: rounded(median(ipykernel)),
    ratio: rounded(median(ipykernel) / median(cella)),
  };
}

async function ofCella(subjects: Subjects, kernels: number): Promise<number[]> {
  const sessions = await Promise.all(Array.from({ length: kernels }, () => subjects.cella()));
  await Promise.all(sessions.map((session) => runOk(session, 'x=1')));
  await atRest();
  const samples = sessions.map((session) => memoryOf(tree(session.pid)).privateMb);
  await subjects.end(...sessions);
  return samples;
}

async function ofIPykernel(subjects: Subjects): Promise<number> {
  const kernel = await subjects.ipykernel();
  await kernel.run('x=1');
  await atRest();
  const { privateMb } = memoryOf(tree(kernel.pid));
  await subjects.end(kernel);
  return privateMb;
}

/** Many kernels opened at the same moment: how many answer, and what they all take together with the template. */

import { memoryOf } from '../memory.ts';
import type { Plan } from '../plan.ts';
import { atRest, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

export async function measureDensity(
  subjects: Subjects,
  template: number,
  plan: Plan['density'],
  progress: Progress,
): Promise<Kernels['density']> {
  const { kernels } = plan;
  let answered = 0;
  const attempts = await Promise.allSettled(
    Array.from({ length: kernels }, async () => {
      const session = await subjects.cella();
      await runOk(session, 'x=1');
      progress.tick(++answered, kernels);
      return session;
    }),
  );
  await atRest();
  // Pages that processes share are in nobody's private memory. Their parts add up to what all of it takes.
  const { pssMb, privateMb } = memoryOf(tree(template));
  for (const attempt of attempts) if (attempt.status === 'rejected') progress.step(`lost: ${attempt.reason}`);
  await subjects.end(...attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : [])));
  return { kernels, totalMb: rounded(pssMb), privateMb: rounded(privateMb), lost: kernels - answered };
}

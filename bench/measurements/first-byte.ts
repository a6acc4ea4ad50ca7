/** From a print in code that goes on to the text at the host: both read the clock of the machine. */

import type { Plan } from '../plan.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const PRINTS = 'import time\nprint(time.monotonic_ns())\ntime.sleep(0.05)';
const NS_PER_MS = 1e6;

export async function measureFirstByte(
  subjects: Subjects,
  plan: Plan['firstByte'],
  progress: Progress,
): Promise<Kernels['firstByte']> {
  const session = await subjects.cella({ persist: false });
  const samples: number[] = [];
  for (let round = 0; round < plan.rounds; round++) {
    let arrived = 0n;
    let printed = '';
    await runOk(session, PRINTS, (text) => {
      if (printed === '') arrived = process.hrtime.bigint();
      printed += text;
    });
    samples.push(Number(arrived - BigInt(printed.trim())) / NS_PER_MS);
    progress.tick(round + 1, plan.rounds);
  }
  await subjects.end(session);
  return { ms: rounded(median(samples)), p95Ms: rounded(percentile(samples, 95)) };
}

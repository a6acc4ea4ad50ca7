/** A cell that fails and is rolled back, against the pickling that would do the same: a dump before it and a load after. */

import type { Session } from '../../src/index.ts';
import { timed } from '../clock.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const FAILS = 'data[0] += 1\nadded = 1\nraise ValueError()';
const PICKLES = `
import cloudpickle, time
begun = time.perf_counter()
copy = cloudpickle.loads(cloudpickle.dumps({'data': data}))
took = time.perf_counter() - begun
del copy
took * 1000`;

export async function measureRollback(
  subjects: Subjects,
  plan: { readonly rounds: number; readonly megabytes: number },
  progress: Progress,
): Promise<Kernels['rollback']> {
  const session = await subjects.cella({ persist: false, limits: { memoryMb: 2048 + 5 * plan.megabytes } });
  await runOk(session, `import numpy\ndata = numpy.ones(${plan.megabytes} * 125_000)`);
  const cella: number[] = [];
  const cloudpickle: number[] = [];
  for (let round = 0; round <= plan.rounds; round++) {
    const rolledBack = await failOnce(session);
    const pickled = Number((await session.run(PICKLES)).value);
    // The first of each is a warm-up.
    if (round === 0) continue;
    cella.push(rolledBack);
    cloudpickle.push(pickled);
    progress.tick(round, plan.rounds);
  }
  await subjects.end(session);
  return {
    megabytes: plan.megabytes,
    cellaMs: rounded(median(cella)),
    cloudpickleMs: rounded(median(cloudpickle)),
    ratio: rounded(median(cloudpickle) / median(cella)),
  };
}

async function failOnce(session: Session): Promise<number> {
  const { ms, value } = await timed(() => session.run(FAILS, { transaction: 'rollback_on_failure' }));
  const after = await session.run("[float(data[0]), 'added' in globals()]");
  if (value.transaction !== 'rolled_back' || JSON.stringify(after.value) !== '[1,false]') {
    throw new Error(`The cell was not rolled back: ${JSON.stringify([value.transaction, after.value])}`);
  }
  return ms;
}

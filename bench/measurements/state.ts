/** Rollbacks, checkpoints, forks, saves and resuming, and many agents on few kernels. */

import { KernelPool, type Session } from '../../src/index.ts';
import type { Plan } from '../plan.ts';
import { atRest, memoryOf, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, percentile, rounded, timed } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const SMALL_NAMES = 'for i in range(100): globals()[f"name{i}"] = {"number": i, "items": list(range(10))}';

/** Checkpoints, forks, saves and resuming. */
export async function measureState(
  subjects: Subjects,
  plan: Plan['state'],
  progress: Progress,
): Promise<Pick<Kernels, 'checkpoint' | 'fork' | 'save' | 'resume'>> {
  const session = await subjects.cella();
  const checkpoint: number[] = [];
  const fork: number[] = [];
  await runOk(session, 'x = 1');
  for (let round = 0; round < plan.rounds; round++) {
    await atRest();
    checkpoint.push((await timed(() => session.checkpoint({ name: 'bench' }))).ms);
    await atRest();
    const forked = await timed(() => session.fork({ agentKey: `fork ${round}` }));
    fork.push(forked.ms);
    await forked.value.destroy();
    progress.tick(round + 1, plan.rounds);
  }
  const save: number[] = [];
  const waits: number[] = [];
  await runOk(session, SMALL_NAMES);
  for (let round = 0; round < plan.rounds; round++) {
    await runOk(session, `changed = ${round}`);
    await atRest();
    save.push((await timed(() => session.save())).ms);
    await runOk(session, `changed = -${round}`);
    await atRest();
    // A cell that arrives during a save, compared with one that does not have to wait.
    const saving = session.save();
    const during = (await timed(() => runOk(session, 'x = 1'))).ms;
    await saving;
    await atRest();
    const alone = (await timed(() => runOk(session, 'x = 1'))).ms;
    waits.push(Math.max(0, during - alone));
  }
  const resume: number[] = [];
  await runOk(session, 'data = bytes(10_000_000)');
  for (let round = 0; round < plan.rounds; round++) {
    await runOk(session, `changed = ${round}`);
    await session.hibernate();
    await atRest();
    resume.push((await timed(() => runOk(session, 'assert len(data) == 10_000_000'))).ms);
  }
  await subjects.end(session);
  const both = (samples: number[]) => ({ ms: rounded(median(samples)), p95Ms: rounded(percentile(samples, 95)) });
  return {
    checkpoint: both(checkpoint),
    fork: both(fork),
    save: { ...both(save), waitMs: rounded(median(waits)), waitP95Ms: rounded(percentile(waits, 95)) },
    resume: both(resume),
  };
}

/** Uses every key in turn, and then all again: each must find its variable. */
export async function measurePool(
  subjects: Subjects,
  plan: Plan['pool'],
  progress: Progress,
): Promise<Kernels['pool']> {
  const { python, dataDir, preload } = subjects.options;
  await using pool = new KernelPool({ maxKernels: plan.kernels, session: { python, dataDir, preload } });
  let mostMb = 0;
  let found = 0;
  const { ms } = await timed(async () => {
    for (let key = 0; key < plan.keys; key++) {
      await runOk(await pool.acquire(`pooled ${key}`), `mine = ${key}`);
      pool.release(`pooled ${key}`);
      if (key % 100 === 99) mostMb = Math.max(mostMb, memoryOfAll());
      progress.tick(key + 1, plan.keys);
    }
    for (let key = 0; key < plan.keys; key++) {
      const { value } = await (await pool.acquire(`pooled ${key}`)).run('mine');
      if (value === key) found++;
      pool.release(`pooled ${key}`);
    }
    mostMb = Math.max(mostMb, memoryOfAll());
  });
  const { keys, kernels } = plan;
  return { keys, kernels, found, mostMb: rounded(mostMb), seconds: rounded(ms / 1000) };
}

/** The memory of the template and all sandboxes. Skips processes that end during the measurement. */
function memoryOfAll(): number {
  return tree(process.pid)
    .slice(1)
    .reduce((total, pid) => total + pssOf(pid), 0);
}

function pssOf(pid: number): number {
  try {
    return memoryOf([pid]).pssMb;
  } catch {
    return 0; // it has ended
  }
}

const FAILS = 'data[0] += 1\nadded = 1\nraise ValueError()';
const PICKLES = `
import cloudpickle, time
begun = time.perf_counter()
copy = cloudpickle.loads(cloudpickle.dumps({'data': data}))
took = time.perf_counter() - begun
del copy
took * 1000`;

/** A cell that fails and is rolled back, compared with pickling for the same purpose: a dump before and a load after. */
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

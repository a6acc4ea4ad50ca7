/** Checkpoints, forks, saves and waking up, and many agents on few kernels. */

import { KernelPool } from '../../src/index.ts';
import { timed } from '../clock.ts';
import { memoryOf } from '../memory.ts';
import type { Plan } from '../plan.ts';
import { atRest, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels } from '../result.ts';
import { median, percentile, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const SMALL_NAMES = 'for i in range(100): globals()[f"name{i}"] = {"number": i, "items": list(range(10))}';

export async function measureState(
  subjects: Subjects,
  plan: Plan['state'],
  progress: Progress,
): Promise<Pick<Kernels, 'checkpoint' | 'fork' | 'save' | 'wake'>> {
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
    // A cell that comes in the middle of a save, beside one that has nothing to wait for.
    const saving = session.save();
    const during = (await timed(() => runOk(session, 'x = 1'))).ms;
    await saving;
    await atRest();
    const alone = (await timed(() => runOk(session, 'x = 1'))).ms;
    waits.push(Math.max(0, during - alone));
  }
  const wake: number[] = [];
  await runOk(session, 'data = bytes(10_000_000)');
  for (let round = 0; round < plan.rounds; round++) {
    await runOk(session, `changed = ${round}`);
    await session.hibernate();
    await atRest();
    wake.push((await timed(() => runOk(session, 'assert len(data) == 10_000_000'))).ms);
  }
  await subjects.end(session);
  const both = (samples: number[]) => ({ ms: rounded(median(samples)), p95Ms: rounded(percentile(samples, 95)) });
  return {
    checkpoint: both(checkpoint),
    fork: both(fork),
    save: { ...both(save), waitMs: rounded(median(waits)), waitP95Ms: rounded(percentile(waits, 95)) },
    wake: both(wake),
  };
}

/** Every key is used, in turn, then every one again: each must find what it had. */
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

/** Of the template and all sandboxes. One that ends while it is looked at is left out. */
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

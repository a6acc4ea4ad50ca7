/** The three executors side by side: starts, spares, round trips, memory and output, with the same cells. */

import type { SessionOptions } from '../../src/index.ts';
import { timed } from '../clock.ts';
import { memoryOf } from '../memory.ts';
import type { Plan } from '../plan.ts';
import { atRest, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { ExecutorNumbers } from '../result.ts';
import { median, rounded } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

const MB = 1024 * 1024;

/** `options` say which executor it is. The first session of each kind pays for what is made once, and is left out. */
export async function measureExecutor(
  subjects: Subjects,
  options: SessionOptions,
  plan: Plan['executors'],
  progress: Progress,
): Promise<ExecutorNumbers> {
  const open = (more: SessionOptions = {}) => subjects.cella({ ...options, ...more });
  const kept = await open();
  const startMs = await medianOf(plan.starts, progress, async () => {
    await atRest();
    const { ms, value } = await timed(() => open());
    await subjects.end(value);
    return ms;
  });
  const roundTripMs = await roundTrip(kept, plan);
  const bigPrintMbPerS = await bigPrint(kept, plan.bytes);
  const memoryMb = await memoryOfOneMore(subjects, open, plan.kernels);
  // Last: spares stay for a while, and would count above.
  const spareMs = await measureSpares(subjects, open, plan, progress);
  await subjects.end(kept);
  return { startMs, spareMs, roundTripMs, memoryMb, bigPrintMbPerS };
}

type Open = (more?: SessionOptions) => ReturnType<Subjects['cella']>;
type Kept = Awaited<ReturnType<Open>>;

async function medianOf(rounds: number, progress: Progress, sample: () => Promise<number>): Promise<number> {
  const samples: number[] = [];
  for (let round = 0; round < rounds; round++) {
    samples.push(await sample());
    progress.tick(round + 1, rounds);
  }
  return rounded(median(samples));
}

async function measureSpares(
  subjects: Subjects,
  open: Open,
  { spares, spareWarmUps }: Plan['executors'],
  progress: Progress,
): Promise<number> {
  const first = await open({ spares: 2 });
  const sample = async () => {
    while (first.spares < 2) await atRest();
    await atRest();
    const taken = await timed(async () => {
      const session = await open({ spares: 2 });
      await runOk(session, '1+1');
      return session;
    });
    await subjects.end(taken.value);
    return taken.ms;
  };
  for (let round = 0; round < spareWarmUps; round++) await sample();
  const ms = await medianOf(spares, progress, sample);
  await subjects.end(first);
  return ms;
}

async function roundTrip(session: Kept, { cells }: Plan['executors']): Promise<number> {
  const samples: number[] = [];
  for (let cell = 0; cell < cells * 1.25; cell++) samples.push((await timed(() => runOk(session, 'x=1'))).ms);
  // The first fifth warms both sides up.
  return rounded(median(samples.slice(-cells)));
}

async function bigPrint(session: Kept, bytes: number): Promise<number> {
  await runOk(session, `text = 'x' * ${bytes - 1}`);
  const samples: number[] = [];
  for (let round = 0; round < 4; round++) {
    await atRest();
    let arrived = 0;
    const { ms } = await timed(() =>
      runOk(session, 'print(text)', (text) => {
        arrived += text.length;
      }),
    );
    if (arrived !== bytes) throw new Error(`Of ${bytes} printed bytes ${arrived} arrived.`);
    if (round > 0) samples.push(bytes / 1e6 / (ms / 1000));
  }
  await runOk(session, 'del text');
  return rounded(median(samples));
}

/** What the machine has less, once another kernel is there: its own processes, and what this process grows by. */
async function memoryOfOneMore(subjects: Subjects, open: Open, kernels: number): Promise<number> {
  const own = () => process.memoryUsage().rss / MB;
  const before = own();
  const sessions: Kept[] = [];
  for (let i = 0; i < kernels; i++) sessions.push(await open());
  for (const session of sessions) await runOk(session, 'x=1');
  await atRest();
  const pids = sessions.flatMap(({ pid }) => (pid === 0 || pid === process.pid ? [] : tree(pid)));
  const theirs = pids.length === 0 ? Math.max(0, own() - before) : memoryOf(pids).privateMb;
  await subjects.end(...sessions);
  return rounded(theirs / kernels);
}

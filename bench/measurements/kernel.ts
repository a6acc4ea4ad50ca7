/** Kernels of the library compared with ipykernel, in an order in which no measurement affects another. */

import type { Session } from '../../src/index.ts';
import type { Plan } from '../plan.ts';
import { atRest, memoryOf, parentOf, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { Kernels, Throughput, Times } from '../result.ts';
import { compareTimes, median, percentile, repeated, rounded, timed } from '../statistics.ts';
import { runOk, type Subject, type Subjects } from '../subjects.ts';
import { measurePool, measureRollback, measureState } from './state.ts';

export async function measureKernels(subjects: Subjects, plan: Plan, progress: Progress): Promise<Kernels> {
  progress.step('template');
  const template = await measureTemplate(subjects);
  progress.step('start');
  const start = await measureStart(subjects, plan.start, progress);
  progress.step('round trip');
  const roundTrip = await measureRoundTrip(subjects, plan.roundTrip, progress);
  progress.step('memory');
  const memory = await measureMemory(subjects, plan.memory, progress);
  progress.step('one big print');
  const bigPrint = await measureBigPrint(subjects, plan.bigPrint, progress);
  progress.step('many small prints');
  const smallPrints = await measureSmallPrints(subjects, plan.smallPrints, progress);
  progress.step('interrupt');
  const interrupt = await measureInterrupt(subjects, plan.interrupt, progress);
  progress.step('first byte');
  const firstByte = await measureFirstByte(subjects, plan.firstByte, progress);
  progress.step('density');
  const density = await measureDensity(subjects, template.pid, plan.density, progress);
  // Last, because spares stay for a while and would count as kernels.
  progress.step('first result from a spare');
  const spare = await measureSpare(subjects, plan.spare, progress);
  progress.step('rollback');
  const rollback = await measureRollback(subjects, plan.rollback, progress);
  progress.step('rollback of 1 GB');
  const rollback1gb = await measureRollback(subjects, plan.rollback1gb, progress);
  progress.step('checkpoints, forks, saves and resuming');
  const state = await measureState(subjects, plan.state, progress);
  progress.step('many agents on few kernels');
  const pool = await measurePool(subjects, plan.pool, progress);
  await subjects.end(template.session);
  const templateMs = rounded(template.firstOpenMs - start.cellaMs);
  const templateMb = rounded(template.templateMb);
  return {
    start,
    spare,
    roundTrip,
    memory,
    bigPrint,
    smallPrints,
    interrupt,
    firstByte,
    density,
    rollback,
    rollback1gb,
    ...state,
    pool,
    templateMs,
    templateMb,
  };
}

export interface TemplateStart {
  readonly pid: number;
  /** With the session that it was started for. */
  readonly firstOpenMs: number;
  readonly templateMb: number;
  /** Keeps the template running. */
  readonly session: Session;
}

/** The one-time cost of the first session of a host process: the start and the memory of the template. */
export async function measureTemplate(subjects: Subjects): Promise<TemplateStart> {
  const { ms, value } = await timed(() => subjects.cella());
  const pid = parentOf(value.pid);
  return { pid, firstOpenMs: ms, templateMb: memoryOf([pid]).pssMb, session: value };
}

/** The time until a kernel answers: Cella without a spare, ipykernel as a new process. */
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

/** From the call of open to the first result, with a ready spare: in a busy host, and after rest. */
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
  // The next spare is made in the background; after rest, it is ready.
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

/** The round trip of the smallest cell in warm kernels. */
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

const PRINTS = 'import time\nprint(time.monotonic_ns())\ntime.sleep(0.05)';
const NS_PER_MS = 1e6;

/** From a print in code that keeps running until its text reaches the host. Both read the machine's clock. */
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

/** From the call of interrupt to the result, for code that computes endlessly. */
export async function measureInterrupt(
  subjects: Subjects,
  plan: Plan['interrupt'],
  progress: Progress,
): Promise<Kernels['interrupt']> {
  const session = await subjects.cella();
  const samples: number[] = [];
  await interruptOnce(session);
  for (let round = 0; round < plan.rounds; round++) {
    samples.push(await interruptOnce(session));
    progress.tick(round + 1, plan.rounds);
  }
  await subjects.end(session);
  return { p50Ms: rounded(percentile(samples, 50)), p99Ms: rounded(percentile(samples, 99)) };
}

async function interruptOnce(session: Session): Promise<number> {
  const running = Promise.withResolvers<void>();
  const result = session.run('print("running", flush=True)\nwhile True: pass', {
    onEvent: (event) => {
      if (event.type === 'stdout') running.resolve();
    },
  });
  // If the code ends before the interrupt, the status below is wrong.
  result.then(() => running.resolve(), running.reject);
  await running.promise;
  const { ms, value } = await timed(async () => {
    await session.interrupt();
    return result;
  });
  if (value.status !== 'interrupted') throw new Error(`Interrupted code ended as ${value.status}.`);
  return ms;
}

interface Printing {
  readonly prepare: string;
  readonly print: string;
  /** All text must arrive: lost text would look like speed. */
  readonly bytes: number;
  readonly rounds: number;
}

type Run = (code: string, onText?: (text: string) => void) => Promise<void>;

export function measureBigPrint(subjects: Subjects, plan: Plan['bigPrint'], progress: Progress): Promise<Throughput> {
  const prepare = `text = 'x' * ${plan.bytes - 1}`;
  return compareThroughput(subjects, { ...plan, prepare, print: 'print(text)' }, progress);
}

export function measureSmallPrints(
  subjects: Subjects,
  plan: Plan['smallPrints'],
  progress: Progress,
): Promise<Throughput> {
  const prepare = `line = 'x' * ${plan.lineBytes - 1}`;
  const print = `for _ in range(${plan.lines}): print(line)`;
  return compareThroughput(subjects, { ...plan, prepare, print, bytes: plan.lines * plan.lineBytes }, progress);
}

/** How fast output reaches the host as text, in megabytes of 10^6 bytes. */
async function compareThroughput(subjects: Subjects, printing: Printing, progress: Progress): Promise<Throughput> {
  await using pair = await subjects.pair();
  const runCella: Run = (code, onText) => runOk(pair.cella, code, onText);
  const runIPykernel: Run = (code, onText) => pair.ipykernel.run(code, onText);
  const cella: number[] = [];
  const ipykernel: number[] = [];
  await runCella(printing.prepare);
  await runIPykernel(printing.prepare);
  for (let round = 0; round <= printing.rounds; round++) {
    const [ours, theirs] = [await throughput(runCella, printing), await throughput(runIPykernel, printing)];
    progress.tick(round, printing.rounds);
    if (round === 0) continue;
    cella.push(ours);
    ipykernel.push(theirs);
  }
  return {
    cellaMbPerS: rounded(median(cella)),
    ipykernelMbPerS: rounded(median(ipykernel)),
    ratio: rounded(median(cella) / median(ipykernel)),
  };
}

async function throughput(run: Run, printing: Printing): Promise<number> {
  await atRest();
  let bytes = 0;
  const { ms } = await timed(() =>
    run(printing.print, (text) => {
      bytes += text.length;
    }),
  );
  if (bytes !== printing.bytes) throw new Error(`Of ${printing.bytes} printed bytes ${bytes} arrived.`);
  return bytes / 1e6 / (ms / 1000);
}

/** Private memory of one more kernel that has run one cell. For Cella: every process of its sandbox, without the template. */
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

/** Many kernels opened at the same moment: how many answer, and their total memory with the template. */
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
  // Shared pages are not in any private memory. The proportional shares add up to the total memory.
  const { pssMb, privateMb } = memoryOf(tree(template));
  for (const attempt of attempts) if (attempt.status === 'rejected') progress.step(`lost: ${attempt.reason}`);
  await subjects.end(...attempts.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : [])));
  return { kernels, totalMb: rounded(pssMb), privateMb: rounded(privateMb), lost: kernels - answered };
}

/** The three executors with the same cells, and what each is compared with: `docker run`, and Pyodide without a snapshot. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import type { SessionOptions } from '../../src/index.ts';
import { kernelPackage } from '../../src/interpreter/package-file.ts';
import { CellaError } from '../../src/protocol/errors.ts';
import { DockerEngine } from '../../test/support/docker/docker.ts';
import type { Plan } from '../plan.ts';
import { atRest, memoryOf, tree } from '../processes.ts';
import type { Progress } from '../progress.ts';
import type { ExecutorNumbers, Executors } from '../result.ts';
import { median, rounded, timed } from '../statistics.ts';
import { runOk, type Subjects } from '../subjects.ts';

export async function measureExecutors(
  subjects: Subjects,
  plan: Plan['executors'],
  progress: Progress,
): Promise<Executors> {
  const { python } = subjects.options;
  // None preloads anything: the comparison is about executors, not libraries.
  const bare = { preload: [] };
  progress.step('subprocess, beside the others');
  const subprocess = await measureExecutor(subjects, { ...bare, executor: 'subprocess' }, plan, progress);
  progress.step('containers');
  await using engine = await startEngine((address) => buildDefault(address, python));
  const { address } = engine;
  const options = { ...bare, python: undefined, executor: 'container', engine: address } as const;
  const container = await measureExecutor(subjects, options, plan, progress);
  const dockerRunMs = await measureDockerRun(engine, plan.starts, progress);
  progress.step('WebAssembly');
  const wasm = { ...bare, python: undefined, executor: 'in-process' } as const;
  const inProcess = await measureExecutor(subjects, wasm, plan, progress);
  const coldMs = await measureColdPyodide(plan.starts, progress);
  return {
    subprocess,
    container: {
      ...container,
      dockerRunMs,
      startRatio: rounded(container.startMs / dockerRunMs),
      roundTripRatio: rounded(container.roundTripMs / subprocess.roundTripMs),
    },
    inProcess: { ...inProcess, coldMs, startRatio: rounded(inProcess.startMs / coldMs) },
  };
}

async function buildDefault(address: string, python: string): Promise<string> {
  const [{ connectEngine }, { buildImage }] = await Promise.all([
    import('../../src/environments/container/engine.ts'),
    import('../../src/environments/container/image-store.ts'),
  ]);
  const { name } = await buildImage(await connectEngine(address), { python, version: 'bench', packages: false });
  return name;
}

const MB = 1024 * 1024;

/** `options` select the executor. The first session of each kind is not counted, because it includes one-time work. */
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
  // Last, because spares stay for a while and would affect the other measurements.
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
  // The first fifth is a warm-up.
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

/** The memory that one more kernel takes: its own processes, and the growth of this process. */
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

export function measureDockerRun(engine: BenchEngine, rounds: number, progress: Progress): Promise<number> {
  return medianTime(rounds, progress, () => engine.dockerRun());
}

export function measureColdPyodide(rounds: number, progress: Progress): Promise<number> {
  return medianTime(rounds, progress, async () => {
    const worker = new Worker(new URL('../programs/cold-pyodide.mjs', import.meta.url), {
      workerData: kernelPackage(),
    });
    await once(worker, 'message');
    await worker.terminate();
  });
}

async function medianTime(rounds: number, progress: Progress, work: () => Promise<void>): Promise<number> {
  const samples: number[] = [];
  // The first is a warm-up.
  for (let round = 0; round <= rounds; round++) {
    await atRest();
    const { ms } = await timed(work);
    if (round > 0) samples.push(ms);
    progress.tick(round, rounds);
  }
  return rounded(median(samples));
}

export interface BenchEngine extends AsyncDisposable {
  readonly address: string;
  readonly image: string;
  /** Runs a container of the image that does nothing, with the command that a user would type. */
  dockerRun(): Promise<void>;
}

const runProgram = promisify(execFile);

/** A container engine for the benchmark, with the default image, and Docker's client as the peer. */
export async function startEngine(build: (address: string) => Promise<string>): Promise<BenchEngine> {
  await requireProgram('dockerd', 'docker.io');
  await requireProgram('docker', 'docker.io');
  const engine = await DockerEngine.start();
  try {
    const { address } = engine;
    const image = await build(address);
    const argv = ['-H', address, 'run', '--rm', '--network', 'none', image, 'python3', '-c', 'pass'];
    return {
      address,
      image,
      dockerRun: async () => void (await runProgram('docker', argv)),
      [Symbol.asyncDispose]: () => engine.remove(),
    };
  } catch (error) {
    await engine.remove();
    throw error;
  }
}

async function requireProgram(program: string, name: string): Promise<void> {
  try {
    await runProgram(program, ['--version']);
  } catch (cause) {
    const message = `The benchmark compares containers with \`docker run\`, and there is no ${program}. On Debian: apt-get install ${name}.`;
    throw new CellaError('PEER_MISSING', message, { cause, details: { missing: program } });
  }
}

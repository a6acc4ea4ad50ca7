/** The three executors in one run, each beside what it is compared with. */

import { startEngine } from './engine.ts';
import { measureExecutor } from './measurements/executors.ts';
import { measureColdPyodide, measureDockerRun } from './measurements/peers-of-executors.ts';
import type { Plan } from './plan.ts';
import type { Progress } from './progress.ts';
import type { Executors } from './result.ts';
import { rounded } from './statistics.ts';
import type { Subjects } from './subjects.ts';

export async function compareExecutors(
  subjects: Subjects,
  plan: Plan['executors'],
  progress: Progress,
): Promise<Executors> {
  const { python } = subjects.options;
  // None preloads anything: what is compared is the place, not its libraries.
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
    import('../src/environments/container/engine.ts'),
    import('../src/environments/container/build-image.ts'),
  ]);
  const { name } = await buildImage(await connectEngine(address), { python, version: 'bench', packages: false });
  return name;
}

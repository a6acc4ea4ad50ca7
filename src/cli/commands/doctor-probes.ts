/** What `cella doctor` checks on this machine: layers of isolation, executors, package installer and Redis. */

import { CellaError } from '../../protocol/errors.ts';
import { readProcessConfig } from '../../settings/process-config.ts';
import { adviceFor } from '../command-errors.ts';
import type { StorageTarget } from '../context.ts';
import { describeTarget } from '../target-options.ts';
import type { DoctorReport, DoctorSurroundings, FoundExecutor } from './doctor.ts';

export interface DetectOptions {
  readonly python: string | undefined;
  readonly place: StorageTarget;
  /** Of containers, in place of the usual ones. */
  readonly engine?: string | undefined;
  readonly image?: string | undefined;
}

export async function detect({
  python: named,
  place,
  ...container
}: DetectOptions): Promise<DoctorReport & DoctorSurroundings> {
  const redis = place.redis ? { redis: await lookAtRedis(place) } : {};
  const others = [await lookAtContainers(container), await lookAtPyodide()];
  const [{ findPython }, { detectLayers }] = await Promise.all([
    import('../../interpreter/find-python.ts'),
    import('../../sandbox/detect.ts'),
  ]);
  try {
    const python = await findPython(named);
    const [machine, installer] = [await detectLayers(python), await lookForInstaller(python)];
    return { ...machine, installer, executors: others, ...redis };
  } catch (error) {
    // Without a Python the others may do.
    if (!(error instanceof CellaError) || error.code !== 'PYTHON_NOT_FOUND') throw error;
    const [problem, fix] = [error.message, adviceFor(error.code)];
    return { problem, fix, root: process.getuid?.() === 0, layers: [], executors: others, ...redis };
  }
}

async function lookForInstaller(python: string): Promise<DoctorSurroundings['installer']> {
  const { installerHere } = await import('../../namespaces/deps/find-installer.ts');
  try {
    return { name: await installerHere(python) };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { problem: error.message, fix: error.advice };
  }
}

async function lookAtRedis(place: StorageTarget): Promise<NonNullable<DoctorSurroundings['redis']>> {
  const { redisProblems } = await import('../../storage/redis/health.ts');
  const where = describeTarget(place);
  try {
    return { where, reachable: true, problems: await redisProblems(place.redis?.url ?? '') };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { where, reachable: false, problems: [error.message] };
  }
}

async function lookAtContainers(wanted: Pick<DetectOptions, 'engine' | 'image'>): Promise<FoundExecutor> {
  const [{ connectEngine }, { findImage }, { DEFAULT_IMAGE }] = await Promise.all([
    import('../../environments/container/engine.ts'),
    import('../../environments/container/image-python.ts'),
    import('../../environments/container/image-names.ts'),
  ]);
  const { engine = readProcessConfig().engine, image = DEFAULT_IMAGE } = wanted;
  const name = 'container';
  try {
    const found = await connectEngine(engine, readProcessConfig().runtimeDir);
    await findImage(found, image);
    const detail = `${found.name} ${found.version} at ${found.address}, with the image ${image}`;
    return { name, available: true, detail, fix: '' };
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return { name, available: false, detail: error.message, fix: adviceFor(error.code) };
  }
}

async function lookAtPyodide(): Promise<FoundExecutor> {
  const name = 'in-process';
  try {
    const { version } = await import('pyodide');
    return { name, available: true, detail: `Pyodide ${version}, for trusted code: it isolates nothing`, fix: '' };
  } catch {
    // Whatever is wrong with it, it cannot be loaded.
    return { name, available: false, detail: 'the package pyodide cannot be loaded', fix: 'Install it again.' };
  }
}

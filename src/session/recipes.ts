/** Which executor a session's options ask for, and how it is made. What a session does not ask for is not even loaded. */

import { delimiter, dirname, join } from 'node:path';
import { readEnvironment } from '../environment.ts';
import { SubprocessExecutor } from '../environments/subprocess/subprocess-executor.ts';
import type { ExecutorKind } from '../protocol/enums.ts';
import { policyOf } from '../sandbox/spec.ts';
import { look, newHolder } from '../storage/identity.ts';
import type { ExecutorRecipe } from './executors.ts';
import { INSIDE } from './homes.ts';
import type { CheckedOptions } from './options.ts';
import { locatePython } from './python.ts';
import { requireLinux } from './ways-out.ts';

export interface Recipe extends ExecutorRecipe {
  readonly kind: ExecutorKind;
}

const MB = 1024 * 1024;

export async function recipeFor(options: CheckedOptions, dataDir: string): Promise<Recipe> {
  const { preload, startTimeoutMs } = options;
  if (options.executor === 'container') {
    const { ContainerExecutor } = await import('../environments/container/container-executor.ts');
    const { image } = options;
    const { engine = readEnvironment().engine } = options;
    const { runtimeDir } = readEnvironment();
    const config = { image, engine, runtimeDir, dataDir, preload, startTimeoutMs, env: variables() };
    const owner = { self: newHolder(), look };
    return recipe('container', config, () => new ContainerExecutor(config, owner));
  }
  if (options.executor === 'in-process') {
    const { InProcessExecutor } = await import('../environments/in-process/in-process-executor.ts');
    const memoryBytes = options.limits.memoryMb * MB;
    const config = { dataDir, preload, startTimeoutMs, memoryBytes, env: variables() };
    return recipe('in-process', config, () => new InProcessExecutor(config));
  }
  const isolated = options.sandbox !== 'off';
  if (isolated) requireLinux();
  const python = await locatePython(options.python);
  const { cgroup } = policyOf(options.sandbox);
  const root = isolated && process.getuid?.() === 0;
  const path = [dirname(python), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter);
  const config = {
    python,
    sandbox: isolated ? ('on' as const) : ('off' as const),
    cgroup: cgroup ?? (root ? ('required' as const) : ('if-available' as const)),
    preload,
    env: { ...variables(), PATH: path },
    startTimeoutMs,
  };
  return recipe('subprocess', config, () => new SubprocessExecutor(config));
}

function recipe(kind: ExecutorKind, config: object, make: ExecutorRecipe['make']): Recipe {
  return { kind, key: JSON.stringify([kind, config]), make };
}

/** Nothing of the host's own environment: no key, token or path of it reaches the code. */
function variables(): Record<string, string> {
  return {
    HOME: join(INSIDE, 'home'),
    USER: 'cella',
    LOGNAME: 'cella',
    LANG: 'C.UTF-8',
    TMPDIR: '/tmp',
    MPLBACKEND: 'agg',
    // Threads of a native library do not survive a fork, and with them no rollback and no checkpoint is possible.
    OPENBLAS_NUM_THREADS: '1',
    OMP_NUM_THREADS: '1',
    MKL_NUM_THREADS: '1',
  };
}

/** What is told where the executor that nobody chose cannot run: what is missing, and which others would do. */

import { CellaError, type ErrorCode } from '../protocol/errors.ts';
import type { CheckedOptions } from './options.ts';

/** What a machine lacks, and not what a caller did wrong. */
const lacks: readonly ErrorCode[] = ['PYTHON_NOT_FOUND', 'SANDBOX_UNAVAILABLE'];

const WAYS_OUT =
  'Two ways out: executor: "container" isolates the code with Docker or Podman instead; executor: "in-process" runs ' +
  'trusted code in WebAssembly, which needs no Python and isolates nothing.';

/** Another executor is never taken by itself: one isolates less, the other needs an engine that somebody trusts. */
export async function tellingWaysOut<T>(executor: CheckedOptions['executor'], work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (executor !== 'auto' || !(error instanceof CellaError) || !lacks.includes(error.code)) throw error;
    const details = { ...error.details, waysOut: ['container', 'in-process'] };
    throw new CellaError(error.code, `${error.message} ${WAYS_OUT}`, { cause: error, details });
  }
}

/** The layers of isolation are Linux's own. */
export function requireLinux(platform: string = process.platform): void {
  if (platform === 'linux') return;
  const message = `Sandboxed processes need Linux, and this is ${platform}.`;
  throw new CellaError('SANDBOX_UNAVAILABLE', message, { details: { platform } });
}

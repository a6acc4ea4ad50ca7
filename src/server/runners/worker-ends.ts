/** Why an executor is no more, in words. */

import type { ExecExit } from '../../environments/environment.ts';
import { CellaError } from '../../protocol/errors.ts';

/** How long the end of a program may come after that of its connection, on a busy machine: it says how it ended. */
export const EXIT_MS = 10_000;

export function closed(why: string): CellaError {
  return new CellaError('WORKER_FAILED', `The executor was ended: ${why}.`);
}

export function ended({ code, signal, outOfMemory }: ExecExit, words: string): CellaError {
  if (outOfMemory) {
    const message = `The executor was ended by ${signal}: the memory that its session may have was used up.`;
    return new CellaError('WORKER_OUT_OF_MEMORY', message, { details: { signal } });
  }
  const how = signal === undefined ? `with exit code ${code}` : `by ${signal}`;
  const said = words === '' ? '' : ` Its last words: ${words}`;
  return new CellaError('WORKER_FAILED', `The executor has ended ${how}.${said}`, {
    details: signal === undefined ? { code } : { signal },
  });
}

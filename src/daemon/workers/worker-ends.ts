/** Why an executor is no more, in words. */

import type { ExecExit } from '../../environments/contract.ts';
import { CellaError } from '../../protocol/errors.ts';

/** How long the end of a program may come after that of its connection, on a busy machine: it says how it ended. */
export const EXIT_MS = 10_000;

export function closed(why: string): CellaError {
  return new CellaError('WORKER_FAILED', `The executor was ended: ${why}.`);
}

export function ended({ code, signal }: ExecExit, words: string): CellaError {
  const how = signal === undefined ? `with exit code ${code}` : `by ${signal}`;
  const said = words === '' ? '' : ` Its last words: ${words}`;
  return new CellaError('WORKER_FAILED', `The executor has ended ${how}.${said}`, {
    details: signal === undefined ? { code } : { signal },
  });
}

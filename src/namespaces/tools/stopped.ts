/** Calls that nobody waits for any more. */

import { CellaError } from '../../protocol/errors.ts';

export function stopped(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped: nobody waits for it any more.`);
}

export function stopIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw stopped(callee);
}

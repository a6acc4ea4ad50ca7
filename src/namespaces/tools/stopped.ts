/** Calls that nobody waits for any more. */

import { CellaError } from '../../protocol/errors.ts';

export function stopped(callee: string): CellaError {
  return new CellaError('ABORTED', `tools.${callee} was stopped: nobody waits for it any more.`);
}

export function stopIfAborted(signal: AbortSignal, callee: string): void {
  if (signal.aborted) throw stopped(callee);
}

/** The work itself goes on, for others who may wait for it. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal, callee: string): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const stop = () => aborted.reject(stopped(callee));
  signal.addEventListener('abort', stop);
  try {
    if (signal.aborted) stop();
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

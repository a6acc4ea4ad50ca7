/** A turn that does not end when it is stopped, in whatever state it is, ends with its executor. */

import { CellaError } from '../../protocol/errors.ts';

export interface Patience extends Disposable {
  /** Rejects when it is over; never resolves. */
  readonly over: Promise<never>;
}

/** It begins when `signal` aborts. */
export function patience(signal: AbortSignal, stopMs: number, onOver: (late: CellaError) => void): Patience {
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => {}); // lost to the turn's own end
  let timer: NodeJS.Timeout | undefined;
  const begin = () => {
    timer = setTimeout(() => {
      const late = new CellaError('WORKER_FAILED', `The turn did not end within ${stopMs} ms after it was stopped.`);
      over.reject(late);
      onOver(late);
    }, stopMs);
  };
  signal.addEventListener('abort', begin, { once: true });
  if (signal.aborted) begin();
  return {
    over: over.promise,
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', begin);
    },
  };
}

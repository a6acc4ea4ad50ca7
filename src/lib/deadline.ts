/** Timeouts for answers from other processes: one that was stopped, or hangs, accepts what it is sent and never answers. */

import { isStopped } from './process-identity.ts';

/** Rejects with `late` if `work` has not settled after `ms`. The work itself goes on. */
export async function withTimeout<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const over = Promise.withResolvers<never>();
  // A process that was busy hears of the time first: what has come meanwhile is read before that.
  const timer = setTimeout(() => setImmediate(() => over.reject(late())), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Whether `work` settles within `ms`, in whatever way. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const settled = work.then(
    () => true,
    () => true,
  );
  return await withTimeout(settled, ms, () => new Error('late')).catch(() => false);
}

/** After how long without an answer it is worth a look whether a process was stopped. */
const STOPPED_CHECK_MS = 1500;

interface Answering {
  readonly pid: number;
  /** However busy the machine is, it answers within this time. */
  readonly timeoutMs: number;
}

/** Waits for another process: rejects with `silent` once it was stopped, or has had its time. */
export async function answerFromProcess<T>(
  answer: Promise<T>,
  { pid, timeoutMs }: Answering,
  silent: (why: string) => Error,
): Promise<T> {
  const began = performance.now();
  const late = Promise.withResolvers<never>();
  const look = () => {
    if (isStopped(pid)) late.reject(silent(`process ${pid} was stopped`));
    else if (performance.now() - began >= timeoutMs)
      late.reject(silent(`process ${pid} has not answered for ${timeoutMs / 1000} s`));
  };
  const timer = setInterval(look, Math.min(STOPPED_CHECK_MS, timeoutMs));
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearInterval(timer);
  }
}

/** Calls `act` where nobody has called what this returns by then. */
export function timeoutAfterIo(ms: number, act: () => void): () => void {
  let last: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    last = setImmediate(act);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(last);
  };
}

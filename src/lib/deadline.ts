/** Timeouts for answers from processes that may be stopped or hang, and for unused resources. */
import { isStopped } from './process-identity.ts';

/** Rejects with `late` if `work` has not settled after `ms`. The work itself continues. */
export async function withTimeout<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const over = Promise.withResolvers<never>();
  // After a busy spell, timers run before I/O. An answer that arrived meanwhile is read before the work counts as late.
  const timer = setTimeout(() => setImmediate(() => over.reject(late())), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** The value of `work`, or `fallback` if it rejects or takes longer than `ms`. */
export async function valueWithin<T>(work: Promise<T>, ms: number, fallback: T): Promise<T> {
  return await withTimeout(work, ms, () => new Error('late')).catch(() => fallback);
}

/** Whether `work` resolves or rejects within `ms`. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const settled = work.then(
    () => true,
    () => true,
  );
  return await valueWithin(settled, ms, false);
}

/** How long a process may be silent before this checks whether it is stopped. */
const STOPPED_CHECK_MS = 1500;

interface Answering {
  readonly pid: number;
  /** Enough for an answer, however busy the machine is. */
  readonly timeoutMs: number;
}

/** Waits for another process. Rejects with `silent` if that process is stopped or the timeout passes. */
export async function answerFromProcess<T>(
  answer: Promise<T>,
  { pid, timeoutMs }: Answering,
  silent: (why: string) => Error,
): Promise<T> {
  const began = performance.now();
  const late = Promise.withResolvers<never>();
  const check = () => {
    if (isStopped(pid)) late.reject(silent(`process ${pid} was stopped`));
    else if (performance.now() - began >= timeoutMs)
      late.reject(silent(`process ${pid} has not answered for ${timeoutMs / 1000} s`));
  };
  const timer = setInterval(check, Math.min(STOPPED_CHECK_MS, timeoutMs));
  try {
    return await Promise.race([answer, late.promise]);
  } finally {
    clearInterval(timer);
  }
}

/** Calls `act` after `ms`, once pending input was read. Returns a function that cancels the call. */
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

/** Calls back when a resource has not been used for some time. Does not keep the process alive. */
export class IdleTimeout {
  readonly #ms: number;
  readonly #onIdle: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `ms`: 0 means never. */
  constructor(ms: number, onIdle: () => void) {
    this.#ms = ms;
    this.#onIdle = onIdle;
  }

  /** Starts or restarts the timeout. */
  restart(): void {
    this.stop();
    if (this.#ms > 0) this.#timer = setTimeout(this.#onIdle, this.#ms).unref();
  }

  /** Call it when the resource is used again or closed. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** One request that waits: the first who decides it does, and everybody else is told who that was. */

import type { PermissionInfo, Resolution } from '../../protocol/http/permission-routes.ts';

export interface Limits {
  readonly signal: AbortSignal;
  /** 0 means any time. */
  readonly timeoutMs: number;
}

export class Waiting {
  readonly info: PermissionInfo;
  /** Of the request, where its asker may ask again. */
  readonly request: string | undefined;
  readonly #decided = Promise.withResolvers<Resolution>();
  readonly #written = Promise.withResolvers<PermissionInfo>();
  #isOver = false;

  constructor(info: PermissionInfo, request: string | undefined) {
    this.info = info;
    this.request = request;
    this.#written.promise.catch(() => {}); // told to whoever asked, and to whoever decided
    this.#decided.promise.catch(() => {}); // nobody takes the decision of a request that could not be told
  }

  get decided(): Promise<Resolution> {
    return this.#decided.promise;
  }

  /** Resolves when storage and the log have it. */
  get written(): Promise<PermissionInfo> {
    return this.#written.promise;
  }

  /** False where somebody was faster. Nothing is waited for between asking and having decided. */
  settle(resolution: Omit<Resolution, 'at'>, before: Promise<unknown> = Promise.resolve()): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#decided.resolve(before.then(() => ({ ...resolution, at: Date.now() })));
    return true;
  }

  finish(info: PermissionInfo): void {
    this.#written.resolve(info);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#written.reject(error);
  }

  /** It ends by itself where nobody decides in time, or nobody waits for it any more. */
  limit({ signal, timeoutMs }: Limits): Disposable {
    const late = () => this.settle({ outcome: 'timed_out', reason: `nobody answered within ${timeoutMs / 1000} s` });
    const timer = timeoutMs === 0 ? undefined : setTimeout(late, timeoutMs);
    const gone = () => this.settle({ outcome: 'cancelled', reason: 'nobody waits for it any more' });
    signal.addEventListener('abort', gone, { once: true });
    if (signal.aborted) gone();
    return {
      [Symbol.dispose]: () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', gone);
      },
    };
  }
}

/**
 * One request that waits: the first who decides it does, and everybody else is told who that was. It may outlive the
 * server that was asked: then nobody waits for it until the same is asked for again.
 */

import type { PermissionInfo, Resolution } from '../../protocol/api/agent-routes.ts';
import type { PermissionRecord } from './records.ts';

export class Waiting {
  /** Of what is asked for: the same again has the same. */
  readonly request: string | undefined;
  readonly #decided = Promise.withResolvers<Resolution | undefined>();
  readonly #written = Promise.withResolvers<PermissionInfo>();
  #info: PermissionInfo;
  #isLeft: boolean;
  #telling: Promise<void> = Promise.resolve();
  #outlives = false;
  #isOver = false;

  constructor({ info, request }: Pick<PermissionRecord, 'info' | 'request'>, { isLeft = false } = {}) {
    this.#info = info;
    this.request = request;
    this.#isLeft = isLeft;
    this.#written.promise.catch(() => {}); // told to whoever asked, and to whoever decided
    this.#decided.promise.catch(() => {}); // nobody takes the decision of a request that could not be told
  }

  get info(): PermissionInfo {
    return this.#info;
  }

  /** Whether whoever asked has gone with the server that was asked. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Resolves when what is being told of it is told, or could not be. */
  get telling(): Promise<void> {
    return this.#telling;
  }

  /** Undefined where it is left to the next server. */
  get decided(): Promise<Resolution | undefined> {
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

  /** Nobody waits for it any more. False where somebody was faster. */
  cancel(reason: string): boolean {
    if (!this.#outlives || this.#isOver) return this.settle({ outcome: 'cancelled', reason });
    this.#isOver = true;
    this.#decided.resolve(undefined);
    return true;
  }

  /** The server ends: from here on, it is left to the next one where it would be cancelled. */
  outlive(): void {
    this.#outlives = true;
  }

  /** Somebody waits for it again. */
  adopt(asker: Pick<PermissionInfo, 'turn' | 'item' | 'execution'>): void {
    this.#isLeft = false;
    this.#info = { ...this.#info, ...asker };
  }

  /** Where it cannot be told, whoever asks does not wait; one that was there before waits on, for the next. */
  async tell(work: () => Promise<void>, { isAdopted }: { readonly isAdopted: boolean }): Promise<void> {
    const told = work();
    this.#telling = told.catch(() => {}); // thrown below
    try {
      await told;
    } catch (error) {
      if (isAdopted) this.#isLeft = true;
      else this.fail(error);
      throw error;
    }
  }

  finish(info: PermissionInfo): void {
    this.#written.resolve(info);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#decided.reject(error);
    this.#written.reject(error);
  }

  /** It ends by itself where nobody waits for it any more. */
  until(signal: AbortSignal): Disposable {
    const gone = () => this.cancel('nobody waits for it any more');
    signal.addEventListener('abort', gone, { once: true });
    if (signal.aborted) gone();
    return { [Symbol.dispose]: () => signal.removeEventListener('abort', gone) };
  }

  /** It ends by itself where nobody decides in the time that it had when it was asked for. */
  expire(): Disposable {
    const { requestedAt, expiresAt } = this.#info;
    if (expiresAt === undefined) return { [Symbol.dispose]: () => {} };
    const reason = `nobody answered within ${(expiresAt - requestedAt) / 1000} s`;
    const late = () => this.settle({ outcome: 'timed_out', reason });
    const timer = setTimeout(late, Math.max(0, expiresAt - Date.now()));
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }
}

/** One call that waits: its reply, its deadline, its caller's signal and the end of the connection, whichever is first. */

import { CellaError } from '../errors.ts';

export interface CallOptions {
  /** The caller's, which is that of its task: a call that names none waits for as long as the connection lives. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What a timer can wait for. */
const LONGEST_MS = 2 ** 31 - 1;

export class PendingCall {
  readonly #outcome = Promise.withResolvers<unknown>();
  readonly #onGivenUp: () => void;
  readonly #signal: AbortSignal | undefined;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(method: string, { timeoutMs, signal }: CallOptions, onGivenUp: () => void) {
    this.#onGivenUp = onGivenUp;
    this.#signal = signal;
    if (timeoutMs !== undefined && timeoutMs <= LONGEST_MS) {
      const late = () =>
        this.#giveUp(new CellaError('DEADLINE_EXCEEDED', `${method} was not answered within ${timeoutMs} ms.`));
      this.#timer = setTimeout(late, timeoutMs);
    }
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get outcome(): Promise<unknown> {
    return this.#outcome.promise;
  }

  resolve(result: unknown): void {
    this.#release();
    this.#outcome.resolve(result);
  }

  reject(error: CellaError): void {
    this.#release();
    this.#outcome.reject(error);
  }

  readonly #onAbort = (): void => {
    this.#giveUp(new CellaError('ABORTED', 'The caller no longer waits for the answer.'));
  };

  #giveUp(error: CellaError): void {
    this.reject(error);
    this.#onGivenUp();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener('abort', this.#onAbort);
  }
}

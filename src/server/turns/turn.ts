/** One turn while it waits and runs: why it is to stop, and who waits for its beginning and its end. */

import { CellaError } from '../../protocol/errors.ts';
import type { TurnInfo } from '../../protocol/turn.ts';
import type { PromptWish } from './contract.ts';
import type { TurnRecord } from './records.ts';

/** `stopped`: somebody asked for it. `closing`: its session ends. `failed`: nothing of it can be written down. */
export type StopReason =
  | { readonly kind: 'stopped' }
  | { readonly kind: 'timed_out' }
  | { readonly kind: 'closing' }
  | { readonly kind: 'failed'; readonly error: CellaError };

export class HostedTurn {
  readonly wish: PromptWish;
  record: TurnRecord;
  /** Set where it was stopped before its turn came. */
  takenBack: Promise<void> | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<TurnInfo>();
  readonly #stop = new AbortController();
  #reason: StopReason | undefined;

  constructor(wish: PromptWish, record: TurnRecord) {
    this.wish = wish;
    this.record = record;
    // Who has not asked for them does not wait for them.
    this.#started.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
    wish.signal?.addEventListener('abort', this.#gone, { once: true });
    if (wish.signal?.aborted) this.#gone();
  }

  readonly #gone = (): void => this.stop({ kind: 'stopped' });

  get id(): string {
    return this.record.id;
  }

  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  /** The first reason counts. */
  get reason(): StopReason | undefined {
    return this.#reason;
  }

  get started(): Promise<number> {
    return this.#started.promise;
  }

  get ended(): Promise<TurnInfo> {
    return this.#ended.promise;
  }

  stop(reason: StopReason): void {
    this.#reason ??= reason;
    this.#stop.abort();
  }

  /** Its turn has come. */
  begin(firstSeq: number): void {
    this.#started.resolve(firstSeq);
  }

  end(info: TurnInfo): void {
    this.#letGo();
    this.#started.reject(new CellaError('ABORTED', 'The turn was over before it began.'));
    this.#ended.resolve(info);
  }

  fail(error: Error): void {
    this.#letGo();
    this.#started.reject(error);
    this.#ended.reject(error);
  }

  /** The caller's signal may live for long after it. */
  #letGo(): void {
    this.wish.signal?.removeEventListener('abort', this.#gone);
  }
}

/** One execution of a hosted session: its number in the log, its ending, and who waits for them. */

import type { CellaError } from '../../protocol/errors.ts';
import type { ExecutionEvent, ExecutionResult, ResultEvent } from '../../protocol/execution-events.ts';
import type { ExecutionOutcome, HostedExecuteOptions } from './contract.ts';
import { newExecutionId } from './ids.ts';

/** How it ended: what crosses the wire, and what the code gave in this process. */
export interface Ended extends ExecutionOutcome {
  readonly event: ResultEvent;
}

export class HostedExecution {
  readonly id: string;
  readonly code: string;
  readonly options: HostedExecuteOptions;
  /** The name of its request, where it came with a key. */
  readonly request: string | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<Ended>();
  readonly #stop = new AbortController();
  /** Aborted where nobody wants it any more. */
  readonly signal: AbortSignal;
  /** Told what it tells, in this process; what it returns is waited for. */
  observe: (event: ExecutionEvent) => void | Promise<void> = () => {};
  /** Until it is written down that it has failed: before that, nobody may take it for one that never began. */
  telling: Promise<void> = Promise.resolve();
  /** Why nothing more of it is written down. */
  failure: CellaError | undefined;

  constructor(code: string, options: HostedExecuteOptions, request?: string, id = newExecutionId()) {
    this.id = id;
    this.code = code;
    this.options = options;
    this.request = request;
    this.signal = options.signal ? AbortSignal.any([options.signal, this.#stop.signal]) : this.#stop.signal;
    // Who has not asked for them does not wait for them.
    this.#started.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
  }

  /** The number of its first event. */
  get started(): Promise<number> {
    return this.#started.promise;
  }

  get ended(): Promise<Ended> {
    return this.#ended.promise;
  }

  /** Takes it back where it waits, and interrupts it where it runs. */
  stop(): void {
    this.#stop.abort();
  }

  begin(firstSeq: Promise<number>): void {
    this.#started.resolve(firstSeq);
  }

  async end(result: ExecutionResult, event: ResultEvent): Promise<void> {
    this.#ended.resolve({ execution: this.id, firstSeq: await this.started, joined: false, result, event });
  }

  fail(error: Error): void {
    this.#started.reject(error);
    this.#ended.reject(error);
  }
}

/** One execution of a session while it waits and runs: who waits for it, why it stops, and how it ended, which becomes durable. */

import { CellaError } from '../../protocol/errors.ts';
import type { ExecutionEvent, ExecutionResult, ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { ExecutionRecorder } from '../events/execution-recorder.ts';
import { executionFailed, type SessionLog, writeEventually } from '../events/session-log.ts';
import { newSortableId } from '../ids.ts';
import type { IdempotencyStore } from './idempotency.ts';
import type { ExecutionHandle, ServerExecuteOptions } from './session-types.ts';

/** The result as JSON, and as an event with Python values. */
interface EndedExecution {
  readonly result: ExecutionResult;
  readonly event: ResultEvent;
}

export class ServerExecution {
  readonly id: string;
  readonly code: string;
  readonly options: ServerExecuteOptions;
  /** The stored name of its Idempotency-Key, if it has one. */
  readonly request: string | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<EndedExecution>();
  readonly #stop = new AbortController();
  /** Aborts when the execution must stop. */
  readonly signal: AbortSignal;
  /** Called with its events, for a caller in this process. The code waits for what it returns. */
  observe: (event: ExecutionEvent) => void | Promise<void> = () => {};
  /** Resolves when its failure is durable: until then a retry must not start it again. */
  failureRecorded: Promise<void> = Promise.resolve();
  /** Why it is no longer logged. */
  failure: CellaError | undefined;

  constructor(code: string, options: ServerExecuteOptions, request?: string, id = newSortableId('exe')) {
    this.id = id;
    this.code = code;
    this.options = options;
    this.request = request;
    this.signal = options.signal ? AbortSignal.any([options.signal, this.#stop.signal]) : this.#stop.signal;
    // Callers may ignore either promise.
    this.#started.promise.catch(() => {});
    this.#ended.promise.catch(() => {});
  }

  /** The sequence number of its first event. */
  get started(): Promise<number> {
    return this.#started.promise;
  }

  get ended(): Promise<EndedExecution> {
    return this.#ended.promise;
  }

  toHandle(replayed = false): ExecutionHandle {
    const outcome = this.ended.then(({ result }) => result);
    // A caller who reads the events gets a failure there.
    outcome.catch(() => {});
    return { id: this.id, replayed, isStored: false, started: this.started, outcome };
  }

  /** Cancels it while it waits, interrupts it while it runs. */
  stop(): void {
    this.#stop.abort();
  }

  begin(firstSeq: Promise<number>): void {
    this.#started.resolve(firstSeq);
  }

  end(ended: EndedExecution): void {
    this.#ended.resolve(ended);
  }

  fail(error: Error): void {
    this.#started.reject(error);
    this.#ended.reject(error);
  }
}

interface ExecutionOutcomesParts {
  readonly log: SessionLog;
  readonly requests: IdempotencyStore;
  /** Whether a result is flushed to disk before callers get it. */
  readonly flushResults: boolean;
  /** Whether the session is closed: nothing is logged after that. */
  readonly closed: () => boolean;
}

/** Writes how executions ended to the log and the results of keyed requests to the store, also if storage fails for a while. */
export class ExecutionOutcomes {
  readonly #parts: ExecutionOutcomesParts;
  /** Results that may not be in the log yet, by execution. */
  readonly #results = new Map<string, SessionEventBody>();

  constructor(parts: ExecutionOutcomesParts) {
    this.#parts = parts;
  }

  /** The end of an execution that may not be in the log. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#results.get(execution);
  }

  /** `onWritten` is called before the caller gets the result. */
  async finish(
    execution: ServerExecution,
    recorder: ExecutionRecorder,
    { ended, onWritten }: { readonly ended: ResultEvent; readonly onWritten: () => void },
  ): Promise<void> {
    const { log: writer, requests, flushResults } = this.#parts;
    const { event, result } = await recorder.end(ended);
    const { request: name } = execution;
    const request = name === undefined ? undefined : await requests.get(name);
    if (name !== undefined && request) {
      await requests.finish(name, { ...request, firstSeq: await execution.started }, result);
    }
    this.#results.set(execution.id, event);
    await writer.write(event, { flushed: flushResults });
    this.#results.delete(execution.id);
    onWritten();
    execution.end({ result, event: ended });
  }

  /** Logs the end of an execution that has started and failed. */
  async fail(execution: ServerExecution, cause: unknown): Promise<never> {
    const error = execution.failure ?? (cause instanceof CellaError ? cause : executionLost(cause));
    // If its start could not be written, the log itself records its end.
    const begun = await execution.started.then(
      () => true,
      () => false,
    );
    try {
      if (begun) await this.#recordFailure(execution, error);
    } catch {
      // Storage fails. What has started must not start again, so this is retried. If the session closes first, the next
      // server finds an execution without an end, and marks it as interrupted.
      const record = () => this.#recordFailure(execution, error);
      execution.failureRecorded = writeEventually(record, this.#parts.closed).catch(() => {});
    }
    throw error;
  }

  async #recordFailure(execution: ServerExecution, error: CellaError): Promise<void> {
    const { log: writer, requests } = this.#parts;
    const { request: name } = execution;
    const firstSeq = await execution.started;
    const request = name === undefined ? undefined : await requests.get(name);
    if (name !== undefined && request && !request.outcome) await requests.finish(name, { ...request, firstSeq }, error);
    await writer.write(executionFailed(execution.id, error), { flushed: true });
    this.#results.delete(execution.id);
  }
}

function executionLost(cause: unknown): CellaError {
  return new CellaError('EXECUTION_LOST', `The execution ended with an error of the server: ${String(cause)}.`, {
    cause,
  });
}

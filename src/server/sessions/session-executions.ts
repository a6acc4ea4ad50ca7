/** The executions of a session: one at a time, each in the log from its start to its one ending, with its input requests. */

import { setTimeout as delay } from 'node:timers/promises';
import { ExecutionQueue } from '../../kernel-manager/execution-queue.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { CellaError } from '../../protocol/errors.ts';
import type {
  ExecutionEvent,
  ExecutionResult,
  InputRequestEvent,
  ResultEvent,
} from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Session } from '../../session/session.ts';
import { ExecutionRecorder, startedEvent, toExecuteOptions } from '../events/execution-recorder.ts';
import type { OutputFiles } from '../events/output-files.ts';
import { executionFailed, type SessionLog } from '../events/session-log.ts';
import { newExecutionId } from '../ids.ts';
import { drainingError } from '../request-errors.ts';
import type { IdempotencyStore } from './idempotency.ts';
import type { KernelLease } from './kernel-lease.ts';
import type { SessionServices } from './session-services.ts';
import type { ExecutionHandle, ServerExecuteOptions } from './session-types.ts';

interface SessionExecutionsParts {
  readonly services: SessionServices;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly inputs: PendingInputRequests;
  readonly lease: KernelLease;
  readonly queueLimit: () => number;
}

interface RunningExecution {
  readonly execution: ServerExecution;
  readonly stop: AbortController;
  readonly began: number;
}

/** How many executions of one kernel are known by their number. */
const MAX_NUMBERS = 10_000;

export class SessionExecutions {
  readonly #parts: SessionExecutionsParts;
  /** Also without a kernel. Below it is only the lock of the kernel manager, for which an execution rarely waits. */
  readonly #queue: ExecutionQueue;
  #running: RunningExecution | undefined;
  #lastEnded: string | undefined;
  /** By their number in the kernel: its threads may write long after their execution has ended. */
  readonly #byNumber = new BoundedMap<number, string>(MAX_NUMBERS);
  readonly #outcomes: ExecutionOutcomes;
  #closed: CellaError | undefined;

  constructor(parts: SessionExecutionsParts) {
    this.#parts = parts;
    this.#queue = new ExecutionQueue(parts.queueLimit);
    const { log: writer, requests, services } = parts;
    const closed = () => this.#closed !== undefined;
    this.#outcomes = new ExecutionOutcomes({ log: writer, requests, flushResults: services.flushResults, closed });
  }

  get running(): string | undefined {
    return this.#running?.execution.id;
  }

  /** What runs, and for whom. */
  get asker(): { readonly id: string; readonly by: string | undefined } | undefined {
    const execution = this.#running?.execution;
    return execution && { id: execution.id, by: execution.options.by };
  }

  get queued(): number {
    return this.#queue.pending - (this.#running ? 1 : 0);
  }

  /** The execution with this number in its kernel, if known; without a number, the one that ended last. */
  executionOf(number?: number): string | undefined {
    return number === undefined ? this.#lastEnded : this.#byNumber.get(number);
  }

  /** The end of an execution that may not be in the log. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#outcomes.resultOf(execution);
  }

  submit(execution: ServerExecution): void {
    const { services } = this.#parts;
    this.#checkOpen();
    const leave = this.#queue.enter();
    services.counters.queued++;
    const cancel = () => execution.fail(cancelledError());
    execution.signal.addEventListener('abort', cancel, { once: true });
    const perform = async () => {
      execution.signal.removeEventListener('abort', cancel);
      services.counters.queued--;
      await this.#perform(execution).finally(leave);
    };
    this.#queue.run(perform).catch((error) => execution.fail(error));
  }

  /** Runs the work while no execution runs; none starts meanwhile. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.runNext(work);
  }

  /** Ends what runs, because it can no longer be logged. */
  abort(error: CellaError): void {
    if (!this.#running) return;
    this.#running.execution.failure ??= error;
    this.#running.stop.abort();
  }

  /** Interrupts what runs. Its result is logged. */
  stop(): void {
    this.#running?.stop.abort();
  }

  /** Resolves when nothing runs or waits. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  /** Fails what waits and what comes with this error, and interrupts what runs. Resolves when it has ended. */
  async close(why: CellaError): Promise<void> {
    this.#closed ??= why;
    this.stop();
    await this.idle();
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.services.stopping()) throw drainingError();
  }

  async #perform(execution: ServerExecution): Promise<void> {
    const { services, lease } = this.#parts;
    const { signal } = execution;
    this.#checkOpen();
    if (signal.aborted) throw cancelledError();
    const stop = new AbortController();
    const leave = () => stop.abort();
    signal.addEventListener('abort', leave, { once: true });
    this.#running = { execution, stop, began: performance.now() };
    services.counters.running++;
    try {
      await lease.use((session) => this.#run(session, execution, stop.signal));
    } catch (error) {
      this.#count('failed');
      throw error;
    } finally {
      services.counters.running--;
      this.#running = undefined;
      this.#lastEnded = execution.id;
      signal.removeEventListener('abort', leave);
    }
  }

  async #run(session: Session, execution: ServerExecution, signal: AbortSignal): Promise<void> {
    const { log: writer, outputs, services, inputs } = this.#parts;
    const keyed = execution.request !== undefined;
    const started = writer.write(await startedEvent(execution, outputs, services.limits), {
      size: Math.min(execution.code.length, services.limits.eventBytes),
      flushed: keyed,
      // A short cell is written together with its result.
      soon: !keyed,
    });
    execution.begin(started);
    // An execution with an Idempotency-Key starts only after that is durable.
    if (keyed) await started;
    try {
      await using recorder = new ExecutionRecorder(execution.id, writer, outputs, services.limits);
      const result = await this.#record(session, execution, { recorder, signal });
      inputs.end(execution.id);
      await this.#outcomes.finish(execution, recorder, { ended: result, onWritten: () => this.#count(result.status) });
    } catch (error) {
      inputs.forget(execution.id);
      await this.#outcomes.fail(execution, error);
    }
  }

  async #record(
    session: Session,
    execution: ServerExecution,
    { recorder, signal }: { readonly recorder: ExecutionRecorder; readonly signal: AbortSignal },
  ): Promise<ResultEvent> {
    const { inputs, lease } = this.#parts;
    let result: ResultEvent | undefined;
    // The threads of the old kernel have ended with it: its numbers are no longer needed.
    if (!lease.isLive) this.#byNumber.clear();
    const events = session.stream(execution.code, toExecuteOptions(execution, signal));
    this.#byNumber.set(session.executions, execution.id);
    for await (const event of events) {
      if (event.type === 'result') result = event;
      else if (execution.failure) continue;
      else {
        if (event.type === 'input_request') inputs.add(event, execution.id);
        await recorder.record(event).catch((error) => this.abort(error));
        await execution.observe(event);
      }
    }
    if (execution.failure) throw execution.failure;
    if (!result) throw new CellaError('KERNEL_DIED', 'The execution ended without a result.');
    return result;
  }

  #count(ending: string): void {
    const { counters } = this.#parts.services;
    counters.executions[ending] = (counters.executions[ending] ?? 0) + 1;
    if (this.#running) counters.onEnded(ending, performance.now() - this.#running.began);
  }
}

function cancelledError(): CellaError {
  return new CellaError('ABORTED', 'The execution was taken back before it began.');
}

/** How it ended: the result as it crosses the wire, and as it was in this process. */
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

  constructor(code: string, options: ServerExecuteOptions, request?: string, id = newExecutionId()) {
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
    // A caller who reads the events hears of a failure there.
    outcome.catch(() => {});
    return { id: this.id, replayed, started: this.started, outcome };
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

/** The pause before storage is tried again. */
const RETRY_MS = 500;

interface ExecutionOutcomesParts {
  readonly log: SessionLog;
  readonly requests: IdempotencyStore;
  /** Whether a result is flushed to disk before callers get it. */
  readonly flushResults: boolean;
  /** Whether the session is closed: nothing is logged after that. */
  readonly closed: () => boolean;
}

class ExecutionOutcomes {
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
      // Storage fails. What has started must not start again, so this is retried.
      execution.failureRecorded = this.#recordLater(execution, error);
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

  /** If the session closes first, the next server finds an execution without an end, and marks it as interrupted. */
  async #recordLater(execution: ServerExecution, error: CellaError): Promise<void> {
    while (!this.#parts.closed()) {
      await delay(RETRY_MS, undefined, { ref: false });
      const recorded = await this.#recordFailure(execution, error).then(
        () => true,
        () => false, // storage still fails
      );
      if (recorded) return;
    }
  }
}

function executionLost(cause: unknown): CellaError {
  return new CellaError('EXECUTION_LOST', `The execution ended with an error of the server: ${String(cause)}.`, {
    cause,
  });
}

interface InputAnswer {
  readonly outcome: 'answered' | 'cancelled';
  readonly by?: string | undefined;
}

export class PendingInputRequests {
  readonly #log: SessionLog;
  /** The execution that waits, by the number of its request. */
  readonly #pending = new Map<number, string>();

  constructor(writer: SessionLog) {
    this.#log = writer;
  }

  add({ id }: InputRequestEvent, execution: string): void {
    this.#pending.set(id, execution);
  }

  /** `reply` passes it to the kernel, which rejects answers that it no longer waits for. */
  async reply(
    session: Session | undefined,
    id: number,
    { outcome, by }: InputAnswer,
    reply: (session: Session) => Promise<void>,
  ): Promise<void> {
    const execution = this.#pending.get(id);
    if (execution === undefined || !session) {
      throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    }
    // Before the first await: a second answer must find nothing.
    this.#pending.delete(id);
    await reply(session);
    await this.#log.write({
      type: 'input_answered',
      ...{ execution, id, outcome },
      by,
    });
  }

  /** The cell has ended: its pending inputs are logged as unanswered. */
  end(execution: string): void {
    for (const [id, asker] of this.#pending) {
      if (asker !== execution) continue;
      this.#pending.delete(id);
      this.#log.add({ type: 'input_answered', execution, id, outcome: 'unanswered' });
    }
  }

  forget(execution: string): void {
    for (const [id, asker] of this.#pending) if (asker === execution) this.#pending.delete(id);
  }
}

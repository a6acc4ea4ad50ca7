/** The executions of a session: one at a time, each in the log from its start to its one ending, with its input requests. */

import { setTimeout as delay } from 'node:timers/promises';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { SerialQueue } from '../../lib/serial-queue.ts';
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
import type { ExecutionOutcome, ServerExecuteOptions } from './session-types.ts';

interface ExecutionQueueParts {
  readonly services: SessionServices;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly inputs: PendingInputs;
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

export class ExecutionQueue {
  readonly #parts: ExecutionQueueParts;
  readonly #queue = new SerialQueue();
  #running: RunningExecution | undefined;
  #waiting = 0;
  #lastEnded: string | undefined;
  /** By the numbers that they had in their kernel, whose threads may write when theirs is long over. */
  readonly #byNumber = new BoundedMap<number, string>(MAX_NUMBERS);
  readonly #outcomes: ExecutionOutcomes;
  #closed: CellaError | undefined;

  constructor(parts: ExecutionQueueParts) {
    this.#parts = parts;
    const { log: writer, requests, services } = parts;
    const closed = () => this.#closed !== undefined;
    this.#outcomes = new ExecutionOutcomes({ log: writer, requests, flushResults: services.flushResults, closed });
  }

  get running(): string | undefined {
    return this.#running?.execution.id;
  }

  /** What runs, and who asked for it. */
  get asker(): { readonly id: string; readonly by: string | undefined } | undefined {
    const execution = this.#running?.execution;
    return execution && { id: execution.id, by: execution.options.by };
  }

  get queued(): number {
    return this.#waiting;
  }

  /** The execution that had this number in its kernel, where it is known; without a number, that which ended last. */
  executionOf(number?: number): string | undefined {
    return number === undefined ? this.#lastEnded : this.#byNumber.get(number);
  }

  /** What an execution has come to, where that could not be written down. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#outcomes.resultOf(execution);
  }

  submit(execution: ServerExecution): void {
    const { services, queueLimit } = this.#parts;
    this.#checkOpen();
    if (!this.#queue.free && this.#waiting >= queueLimit()) {
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${this.#waiting} executions wait for it already.`, {
        details: { queued: this.#waiting },
      });
    }
    this.#waiting++;
    services.counters.queued++;
    const takeBack = () => execution.fail(cancelledError());
    execution.signal.addEventListener('abort', takeBack, { once: true });
    const perform = async () => {
      execution.signal.removeEventListener('abort', takeBack);
      this.#waiting--;
      services.counters.queued--;
      await this.#perform(execution);
    };
    this.#queue.run(perform).catch((error) => execution.fail(error));
  }

  /** When nothing runs, and nothing begins meanwhile. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.runNext(work);
  }

  /** Nothing more of what runs can be written down: it ends. */
  abort(error: CellaError): void {
    if (!this.#running) return;
    this.#running.execution.failure ??= error;
    this.#running.stop.abort();
  }

  /** Interrupts what runs; its result is written down. */
  stop(): void {
    this.#running?.stop.abort();
  }

  /** Resolves when nothing runs or waits. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  /** What waits and what comes gets this error; what runs is interrupted. Resolves when it is over. */
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
      // A cell that is over at once is one write with its result.
      soon: !keyed,
    });
    execution.begin(started);
    // What must not run twice does not begin before that is written down.
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
    // With the kernel its threads have ended: nobody asks for the numbers that it had.
    if (!lease.awake) this.#byNumber.clear();
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

/** How it ended: what crosses the wire, and what the code gave in this process. */
export interface EndedExecution extends ExecutionOutcome {
  readonly event: ResultEvent;
}

export class ServerExecution {
  readonly id: string;
  readonly code: string;
  readonly options: ServerExecuteOptions;
  /** The name of its request, where it came with a key. */
  readonly request: string | undefined;
  readonly #started = Promise.withResolvers<number>();
  readonly #ended = Promise.withResolvers<EndedExecution>();
  readonly #stop = new AbortController();
  /** Aborted where nobody wants it any more. */
  readonly signal: AbortSignal;
  /** Told what it tells, in this process; what it returns is waited for. */
  observe: (event: ExecutionEvent) => void | Promise<void> = () => {};
  /** Until it is written down that it has failed: before that, nobody may take it for one that never began. */
  failureRecorded: Promise<void> = Promise.resolve();
  /** Why nothing more of it is written down. */
  failure: CellaError | undefined;

  constructor(code: string, options: ServerExecuteOptions, request?: string, id = newExecutionId()) {
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

  get ended(): Promise<EndedExecution> {
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

/** How often storage that does not work is tried again. */
const RETRY_MS = 500;

interface ExecutionOutcomesParts {
  readonly log: SessionLog;
  readonly requests: IdempotencyStore;
  /** Whether a result is flushed to the disk before it is told. */
  readonly flushResults: boolean;
  /** Nobody tells anything after that. */
  readonly closed: () => boolean;
}

class ExecutionOutcomes {
  readonly #parts: ExecutionOutcomesParts;
  /** Those that are known and may not be in the log. */
  readonly #results = new Map<string, SessionEventBody>();

  constructor(parts: ExecutionOutcomesParts) {
    this.#parts = parts;
  }

  /** What an execution has come to, where that could not be written down. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#results.get(execution);
  }

  /** `onWritten` is called before anybody who waits is told. */
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
    await execution.end(result, ended);
  }

  /** It has begun: the log must tell that it has ended, where it can be told anything. */
  async fail(execution: ServerExecution, cause: unknown): Promise<never> {
    const error = execution.failure ?? (cause instanceof CellaError ? cause : executionLost(cause));
    // Where its beginning could not be written down, the writer tells what became of it.
    const begun = await execution.started.then(
      () => true,
      () => false,
    );
    try {
      if (begun) await this.#recordFailure(execution, error);
    } catch {
      // Storage does not work. What has begun must not begin again, so nobody gives up on it.
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

  /** When the session ends first, whoever opens it next finds that it has not ended. */
  async #recordLater(execution: ServerExecution, error: CellaError): Promise<void> {
    while (!this.#parts.closed()) {
      await delay(RETRY_MS, undefined, { ref: false });
      const told = await this.#recordFailure(execution, error).then(
        () => true,
        () => false, // storage still does not work
      );
      if (told) return;
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

export class PendingInputs {
  readonly #log: SessionLog;
  /** The execution that asks, by the number of the question. */
  readonly #pending = new Map<number, string>();

  constructor(writer: SessionLog) {
    this.#log = writer;
  }

  add({ id }: InputRequestEvent, execution: string): void {
    this.#pending.set(id, execution);
  }

  /** `reply` gives it to the kernel, which refuses what it no longer waits for. */
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
    // Before anything is waited for: a second answer finds nothing.
    this.#pending.delete(id);
    await reply(session);
    await this.#log.write({
      type: 'input_answered',
      ...{ execution, id, outcome },
      ...(by === undefined ? {} : { by }),
    });
  }

  /** The cell is over: nobody waits for these any more. */
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

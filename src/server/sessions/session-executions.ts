/**
 * The executions of a session: accepted once for each Idempotency-Key, run one at a time, each in the log from its start to
 * its one ending, with its input requests.
 */

import { ExecutionQueue } from '../../kernel-manager/kernel-cells.ts';
import { BoundedMap } from '../../lib/bounded-map.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ExecutionResult, InputRequestEvent, ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Session } from '../../session/session.ts';
import type { Lock } from '../../storage/contract.ts';
import { ExecutionRecorder, startedEvent } from '../events/execution-recorder.ts';
import type { OutputFiles } from '../events/output-files.ts';
import type { SessionLog } from '../events/session-log.ts';
import { drainingError } from '../server-control.ts';
import { fingerprint, type IdempotencyStore, IdempotentRequests } from './idempotency.ts';
import type { KernelLease } from './kernel-lease.ts';
import { ExecutionOutcomes, ServerExecution } from './server-execution.ts';
import type { CurrentDefinition } from './session-definitions.ts';
import { ownershipUncertain } from './session-ending.ts';
import type { ExecutionHandle, ServerExecuteOptions, SessionServices } from './session-types.ts';

interface SessionExecutionsParts {
  readonly services: SessionServices;
  readonly log: SessionLog;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  readonly lease: KernelLease;
  readonly definition: Pick<CurrentDefinition, 'settings'>;
  readonly ownerId: string;
  /** Nothing is accepted while it is uncertain who holds it. */
  readonly lock: Pick<Lock, 'held'>;
  /** Called after each execution. */
  readonly onEnded: () => void;
}

/** An execution with an Idempotency-Key that has ended before. */
interface ReplayedExecution {
  readonly id: string;
  readonly firstSeq: number;
  /** Whether its result is in a file. */
  readonly isStored: boolean;
  readonly read: () => Promise<ExecutionResult>;
}

interface RunningExecution {
  readonly execution: ServerExecution;
  readonly stop: AbortController;
  readonly began: number;
}

/** How many executions of one kernel to remember by number. */
const MAX_NUMBERS = 10_000;

export class SessionExecutions {
  readonly inputs: PendingInputRequests;
  readonly #parts: SessionExecutionsParts;
  /** Also queues while there is no kernel. The kernel manager has its own lock, for which an execution rarely waits. */
  readonly #queue: ExecutionQueue;
  #running: RunningExecution | undefined;
  #lastEnded: string | undefined;
  /** By their number in the kernel: its threads may write long after their execution has ended. */
  readonly #byNumber = new BoundedMap<number, string>(MAX_NUMBERS);
  readonly #outcomes: ExecutionOutcomes;
  readonly #keyed: IdempotentRequests<ServerExecution, ReplayedExecution>;
  #closed: CellaError | undefined;

  constructor(parts: SessionExecutionsParts) {
    this.#parts = parts;
    const { log: writer, requests, services, definition } = parts;
    this.inputs = new PendingInputRequests(writer);
    this.#queue = new ExecutionQueue(() => definition.settings.queueLimit);
    const closed = () => this.#closed !== undefined;
    this.#outcomes = new ExecutionOutcomes({ log: writer, requests, flushResults: services.flushResults, closed });
    this.#keyed = new IdempotentRequests(requests, 'execute');
  }

  get running(): string | undefined {
    return this.#running?.execution.id;
  }

  /** The running execution and its user. */
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

  /** Resolves when the code is accepted. A retry with the same Idempotency-Key joins the first request, or gets its result. */
  async execute(code: string, options: ServerExecuteOptions): Promise<ExecutionHandle> {
    this.#checkAccepting();
    if (options.idempotencyKey !== undefined) return await this.#executeOnce(code, options, options.idempotencyKey);
    const execution = new ServerExecution(code, options);
    this.submit(execution);
    return execution.toHandle();
  }

  async #executeOnce(code: string, options: ServerExecuteOptions, key: string): Promise<ExecutionHandle> {
    const { requests } = this.#parts;
    const asked = fingerprint(code, options.timeoutMs, options.inputTimeoutMs, options.transaction);
    const submitted = await this.#keyed.submit(key, {
      fingerprint: asked,
      // Without a result it never started: if it had, the next server would have recorded its end.
      replay: async (record) => {
        if (!record.outcome) return undefined;
        const [id, firstSeq] = [record.execution ?? '', record.firstSeq ?? 0];
        if ('file' in record.outcome) return { id, firstSeq, isStored: true, read: () => requests.result(record) };
        const result = await requests.result(record);
        return { id, firstSeq, isStored: false, read: async () => result };
      },
      start: async (name) => {
        const execution = new ServerExecution(code, options, name);
        await requests.put(name, { execution: execution.id, asked, at: Date.now() });
        this.submit(execution);
        return execution;
      },
      ended: (execution) => execution.ended.catch(() => execution.failureRecorded),
    });
    if ('live' in submitted) return submitted.live.toHandle(submitted.replayed);
    const { id, firstSeq, isStored, read } = submitted.ended;
    return {
      ...{ id, replayed: true, isStored, started: Promise.resolve(firstSeq) },
      get outcome() {
        return read();
      },
    };
  }

  /** Stops the execution with this key. False if none runs or waits. */
  async stopKeyed(idempotencyKey: string): Promise<boolean> {
    const execution = await this.#keyed.find(idempotencyKey);
    execution?.stop();
    return execution !== undefined;
  }

  /** For a caller in this process. */
  submit(execution: ServerExecution): void {
    const { services, onEnded } = this.#parts;
    this.#checkAccepting();
    const place = this.#enterQueue(execution);
    services.counters.queued++;
    const cancel = () => execution.fail(cancelledError());
    execution.signal.addEventListener('abort', cancel, { once: true });
    const perform = async () => {
      execution.signal.removeEventListener('abort', cancel);
      services.counters.queued--;
      await this.#perform(execution).finally(() => place[Symbol.dispose]());
    };
    this.#queue.run(perform).catch((error) => execution.fail(error));
    execution.ended.then(onEnded, onEnded);
  }

  /** Its code is in memory until it has run, also if it was cancelled. */
  #enterQueue({ code, options }: ServerExecution): Disposable {
    const { services, ownerId } = this.#parts;
    using place = new DisposableStack();
    place.use(services.queuedBytes.reserve(options.by ?? ownerId)).add(Buffer.byteLength(code));
    place.defer(this.#queue.enter());
    return place.move();
  }

  /** Runs the work while no execution runs. None starts until it ends. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.runNext(work);
  }

  /** Ends the running execution, because it can no longer be logged. */
  abort(error: CellaError): void {
    if (!this.#running) return;
    this.#running.execution.failure ??= error;
    this.#running.stop.abort();
  }

  /** Interrupts the running execution. Its result is logged. */
  stop(): void {
    this.#running?.stop.abort();
  }

  /** Resolves when nothing runs or waits. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  /** Fails waiting and new executions with this error, and interrupts the running one. Resolves when it has ended. */
  async close(why: CellaError): Promise<void> {
    this.#closed ??= why;
    this.stop();
    await this.idle();
  }

  #checkAccepting(): void {
    this.#checkOpen();
    if (!this.#parts.lock.held) throw ownershipUncertain();
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.services.draining()) throw drainingError();
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
    const { log: writer, outputs, services } = this.#parts;
    const keyed = execution.request !== undefined;
    const started = writer.write(await startedEvent(execution, outputs, services.limits), {
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
      this.inputs.end(execution.id);
      await this.#outcomes.finish(execution, recorder, { ended: result, onWritten: () => this.#count(result.status) });
    } catch (error) {
      this.inputs.forget(execution.id);
      await this.#outcomes.fail(execution, error);
    }
  }

  async #record(
    session: Session,
    execution: ServerExecution,
    { recorder, signal }: { readonly recorder: ExecutionRecorder; readonly signal: AbortSignal },
  ): Promise<ResultEvent> {
    const { lease } = this.#parts;
    let result: ResultEvent | undefined;
    // The threads of the old kernel have ended with it: its numbers are no longer needed.
    if (!lease.isLive) this.#byNumber.clear();
    const events = session.stream(execution.code, { ...execution.options, signal });
    this.#byNumber.set(session.executions, execution.id);
    for await (const event of events) {
      if (event.type === 'result') result = event;
      else if (execution.failure) continue;
      else {
        if (event.type === 'input_request') this.inputs.add(event, execution.id);
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
  return new CellaError('ABORTED', 'The execution was cancelled before it began.');
}

interface InputAnswer {
  readonly outcome: 'answered' | 'cancelled';
  readonly by?: string | undefined;
}

class PendingInputRequests {
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
      throw new CellaError('INPUT_NOT_PENDING', `No input() is waiting for an answer with the id ${id}.`);
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

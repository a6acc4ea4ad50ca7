/** The executions of a hosted session: one at a time, each in the log from its beginning to its one ending. */

import { SerialQueue } from '../../lib/serial-queue.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Session } from '../../session/session.ts';
import { Latest } from '../latest.ts';
import { stopping } from '../stopping.ts';
import type { EventWriter } from './event-writer.ts';
import type { HostedExecution } from './execution.ts';
import type { Inputs } from './inputs.ts';
import type { Lodging } from './lodging.ts';
import { Outcomes } from './outcomes.ts';
import type { Outputs } from './outputs.ts';
import { Recorder } from './recorder.ts';
import type { Requests } from './requests.ts';
import type { HostShare } from './share.ts';
import { optionsOf, startedEvent } from './started.ts';

export interface ExecutionsParts {
  readonly share: HostShare;
  readonly writer: EventWriter;
  readonly outputs: Outputs;
  readonly requests: Requests;
  readonly inputs: Inputs;
  readonly lodging: Lodging;
  readonly queueLimit: () => number;
}

interface Running {
  readonly execution: HostedExecution;
  readonly stop: AbortController;
  readonly began: number;
}

/** How many executions of one kernel are known by their number. */
const MOST_NUMBERS = 10_000;

export class Executions {
  readonly #parts: ExecutionsParts;
  readonly #turns = new SerialQueue();
  #running: Running | undefined;
  #waiting = 0;
  #lastEnded: string | undefined;
  /** By the numbers that they had in their kernel, whose threads may write when theirs is long over. */
  readonly #byNumber = new Latest<number, string>(MOST_NUMBERS);
  readonly #outcomes: Outcomes;
  #closed: CellaError | undefined;

  constructor(parts: ExecutionsParts) {
    this.#parts = parts;
    const { writer, requests, share } = parts;
    const closed = () => this.#closed !== undefined;
    this.#outcomes = new Outcomes({ writer, requests, flushResults: share.flushResults, closed });
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
  owner(number?: number): string | undefined {
    return number === undefined ? this.#lastEnded : this.#byNumber.get(number);
  }

  /** What an execution has come to, where that could not be written down. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#outcomes.resultOf(execution);
  }

  submit(execution: HostedExecution): void {
    const { share, queueLimit } = this.#parts;
    this.#checkOpen();
    if (!this.#turns.free && this.#waiting >= queueLimit()) {
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${this.#waiting} executions wait for it already.`, {
        details: { queued: this.#waiting },
      });
    }
    this.#waiting++;
    share.counters.queued++;
    const takeBack = () => execution.fail(takenBack());
    execution.signal.addEventListener('abort', takeBack, { once: true });
    const perform = async () => {
      execution.signal.removeEventListener('abort', takeBack);
      this.#waiting--;
      share.counters.queued--;
      await this.#perform(execution);
    };
    this.#turns.run(perform).catch((error) => execution.fail(error));
  }

  /** When nothing runs, and nothing begins meanwhile. */
  between<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns.runNext(work);
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
    return this.#turns.idle();
  }

  /** What waits and what comes gets this error; what runs is interrupted. Resolves when it is over. */
  async close(why: CellaError): Promise<void> {
    this.#closed ??= why;
    this.stop();
    await this.idle();
  }

  #checkOpen(): void {
    if (this.#closed) throw this.#closed;
    if (this.#parts.share.stopping()) throw stopping();
  }

  async #perform(execution: HostedExecution): Promise<void> {
    const { share, lodging } = this.#parts;
    const { signal } = execution;
    this.#checkOpen();
    if (signal.aborted) throw takenBack();
    const stop = new AbortController();
    const leave = () => stop.abort();
    signal.addEventListener('abort', leave, { once: true });
    this.#running = { execution, stop, began: performance.now() };
    share.counters.running++;
    try {
      await lodging.use((session) => this.#run(session, execution, stop.signal));
    } catch (error) {
      this.#count('failed');
      throw error;
    } finally {
      share.counters.running--;
      this.#running = undefined;
      this.#lastEnded = execution.id;
      signal.removeEventListener('abort', leave);
    }
  }

  async #run(session: Session, execution: HostedExecution, signal: AbortSignal): Promise<void> {
    const { writer, outputs, share, inputs } = this.#parts;
    const keyed = execution.request !== undefined;
    const started = writer.write(await startedEvent(execution, outputs, share.limits), {
      size: Math.min(execution.code.length, share.limits.eventBytes),
      flushed: keyed,
      // A cell that is over at once is one write with its result.
      soon: !keyed,
    });
    execution.begin(started);
    // What must not run twice does not begin before that is written down.
    if (keyed) await started;
    try {
      await using recorder = new Recorder(execution.id, writer, outputs, share.limits);
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
    execution: HostedExecution,
    { recorder, signal }: { readonly recorder: Recorder; readonly signal: AbortSignal },
  ): Promise<ResultEvent> {
    const { inputs, lodging } = this.#parts;
    let result: ResultEvent | undefined;
    // With the kernel its threads have ended: nobody asks for the numbers that it had.
    if (!lodging.awake) this.#byNumber.clear();
    const events = session.stream(execution.code, optionsOf(execution, signal));
    this.#byNumber.set(session.executions, execution.id);
    for await (const event of events) {
      if (event.type === 'result') result = event;
      else if (execution.failure) continue;
      else {
        if (event.type === 'input_request') inputs.asked(event, execution.id);
        await recorder.take(event).catch((error) => this.abort(error));
        await execution.observe(event);
      }
    }
    if (execution.failure) throw execution.failure;
    if (!result) throw new CellaError('KERNEL_DIED', 'The execution ended without a result.');
    return result;
  }

  #count(ending: string): void {
    const { counters } = this.#parts.share;
    counters.executions[ending] = (counters.executions[ending] ?? 0) + 1;
    if (this.#running) counters.onEnded(ending, performance.now() - this.#running.began);
  }
}

function takenBack(): CellaError {
  return new CellaError('ABORTED', 'The execution was taken back before it began.');
}

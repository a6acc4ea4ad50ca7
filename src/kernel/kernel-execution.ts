/** One execution of a cell: what its result keeps, and its deadline. */

import { timeoutAfterIo } from '../lib/deadline.ts';
import { TruncatedText } from '../lib/truncated-text.ts';
import type { Status } from '../protocol/enums.ts';
import type {
  Death,
  DisplayEvent,
  ExecutionError,
  ExecutionEvent,
  InputRequestEvent,
  Notice,
  ProgressEvent,
  ResultEvent,
  Truncated,
} from '../protocol/execution-events.ts';
import type { ResultPayload } from '../protocol/kernel-payloads.ts';
import type { EventSink, EventWriter } from './event-queue.ts';
import { KernelBudget, MOST_STREAM_BYTES } from './kernel-budget.ts';

/** The most displays that a result keeps: storing or sending more would block the event loop. */
const MOST_DISPLAYS = 1000;

export interface ExecutionSettings {
  readonly timeoutMs: number;
  readonly graceMs: number;
  readonly inputTimeoutMs: number;
  readonly outputLimitBytes: number;
}

export type StopReason = 'timeout' | 'interrupt';

/** Called once, at the end; without a result if the execution never started. */
type OnExecutionEnd = (result?: ResultEvent) => void;

/** Runs before the result is final, and can add to it. */
export type SettleResult = (result: ResultEvent) => Promise<ResultEvent>;

/** The kernel that runs an execution. */
interface ExecutionHost extends EventWriter<ExecutionEvent> {
  readonly budget: KernelBudget;
  readonly settle?: SettleResult | undefined;
}

export class KernelExecution {
  readonly number: number;
  readonly code: string;
  readonly settings: ExecutionSettings;
  readonly events: EventSink<ExecutionEvent>;
  /** Why the code was asked to stop, if it was. */
  stopped: StopReason | undefined;
  readonly #stdout: TruncatedText;
  readonly #stderr: TruncatedText;
  readonly #displays: DisplayEvent[] = [];
  /** The budget of the kernel that runs it. */
  #budget = new KernelBudget();
  #settle: SettleResult | undefined;
  #onEnd: OnExecutionEnd | undefined;
  #displayBytes = 0;
  #outputLength = 0;
  #displaysCut = 0;
  #formsCut = 0;
  #startedAt = 0;
  readonly #settled = Promise.withResolvers<ResultEvent>();

  constructor(
    number: number,
    code: string,
    settings: ExecutionSettings,
    events: EventSink<ExecutionEvent>,
    onEnd?: OnExecutionEnd,
  ) {
    this.number = number;
    this.code = code;
    this.settings = settings;
    this.events = events;
    this.#onEnd = onEnd;
    const limitBytes = Math.min(settings.outputLimitBytes, MOST_STREAM_BYTES);
    this.#stdout = new TruncatedText(limitBytes);
    this.#stderr = new TruncatedText(limitBytes);
    // Readers of the events see a failure there, and the result may have no reader.
    this.#settled.promise.catch(() => {});
  }

  start(host: ExecutionHost): void {
    this.#budget = host.budget;
    this.#settle = host.settle;
    this.events.attach(host);
    this.#startedAt = performance.now();
  }

  output(type: 'stdout' | 'stderr', text: string): boolean {
    (type === 'stdout' ? this.#stdout : this.#stderr).push(text);
    const before = this.#outputLength;
    this.#outputLength = this.#stdout.length + this.#stderr.length;
    this.#budget.take('output', this.#outputLength - before);
    return this.events.push({ type, text }, text.length);
  }

  /** `formsCut` is the number of MIME types that the kernel left out. */
  display(event: DisplayEvent, size: number, formsCut = 0): boolean {
    this.#formsCut += formsCut;
    if (this.#budget.hasRoom('displays', size) && this.#displays.length < MOST_DISPLAYS) {
      this.#displays.push(event);
      this.#budget.take('displays', size);
      this.#displayBytes += size;
    } else {
      this.#displaysCut++;
    }
    return this.events.push(event, size);
  }

  progress(event: ProgressEvent): void {
    this.events.offer(event, event.text.length);
  }

  requestInput(event: InputRequestEvent): void {
    this.events.push(event, event.prompt.length);
  }

  get result(): Promise<ResultEvent> {
    return this.#settled.promise;
  }

  /** Ends an execution that never started: it had no kernel, or was cancelled. */
  abandon(error: Error): void {
    this.#end();
    this.events.fail(error);
    this.#settled.reject(error);
  }

  get lastStderr(): string {
    return this.#stderr.end(2000);
  }

  /** Finishes with the kernel's own result. */
  finish(payload: ResultPayload, notice: Notice | undefined): void {
    const interrupted = payload.error?.name === 'KeyboardInterrupt' && this.stopped === 'interrupt';
    const status: Status = this.stopped === 'timeout' ? 'timeout' : interrupted ? 'interrupted' : payload.status;
    const rest = {
      ...(payload.repr === undefined ? undefined : { value: payload.value ?? null, repr: payload.repr }),
      ...(payload.data === undefined ? undefined : { data: payload.data }),
      ...(payload.exitCode === undefined ? undefined : { exitCode: payload.exitCode }),
      ...errorPart(status, payload.error, this.settings.timeoutMs),
      ...notice,
    };
    this.#formsCut += payload.dataCut ?? 0;
    this.#complete(status, rest, payload.reprCut);
  }

  /** Finishes because the kernel is gone. */
  fail(death: Death, notice: Notice | undefined): void {
    const status: Status =
      this.stopped === 'timeout' ? 'timeout' : this.stopped === 'interrupt' ? 'interrupted' : 'died';
    const error: ExecutionError = { name: death.code, message: death.message, traceback: '' };
    this.#complete(status, { ...errorPart(status, error, this.settings.timeoutMs), ...notice, death });
  }

  #complete(status: Status, rest: Partial<Omit<ResultEvent, 'type' | 'status'>>, reprCut = 0): void {
    const truncated = this.#truncated(reprCut);
    this.#budget.give('displays', this.#displayBytes);
    this.#budget.give('output', this.#outputLength);
    const result: ResultEvent = {
      type: 'result',
      status,
      execution: this.number,
      ...rest,
      stdout: this.#stdout.text,
      stderr: this.#stderr.text,
      displays: this.#displays,
      ...(truncated && { truncated }),
      durationMs: Math.round((performance.now() - this.#startedAt) * 1000) / 1000,
    };
    if (this.#settle) void this.#settle(result).then((settled) => this.#publish(settled), this.abandon.bind(this));
    else this.#publish(result);
  }

  /** What the result leaves out, if anything. */
  #truncated(reprCut: number): Truncated | undefined {
    const [stdoutBytes, stderrBytes] = [this.#stdout.cutBytes, this.#stderr.cutBytes];
    const [displays, streamedBytes, mimeTypes] = [this.#displaysCut, this.events.lost, this.#formsCut];
    if (stdoutBytes + stderrBytes + reprCut + displays + streamedBytes + mimeTypes === 0) return undefined;
    return {
      ...(stdoutBytes > 0 && { stdoutBytes }),
      ...(stderrBytes > 0 && { stderrBytes }),
      ...(reprCut > 0 && { reprCharacters: reprCut }),
      ...(displays > 0 && { displays }),
      ...(mimeTypes > 0 && { mimeTypes }),
      ...(streamedBytes > 0 && { streamedBytes }),
    };
  }

  #publish(result: ResultEvent): void {
    this.#end(result);
    this.events.end(result);
    this.#settled.resolve(result);
  }

  #end(result?: ResultEvent): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    onEnd?.(result);
  }
}

function errorPart(status: Status, error: ExecutionError | undefined, timeoutMs: number): { error?: ExecutionError } {
  if (status === 'timeout') {
    const message = `the code ran longer than ${timeoutMs / 1000} s and was stopped`;
    return { error: { name: 'TimeoutError', message, traceback: error?.traceback ?? '' } };
  }
  return error ? { error } : {};
}

export class ExecutionDeadline {
  readonly #graceMs: number;
  readonly #on: { timeout: () => void; kill: () => void };
  #leftMs: number;
  #startedAt = 0;
  #timer: (() => void) | undefined;
  #kill: (() => void) | undefined;

  constructor(settings: { timeoutMs: number; graceMs: number }, on: { timeout: () => void; kill: () => void }) {
    this.#leftMs = settings.timeoutMs;
    this.#graceMs = settings.graceMs;
    this.#on = on;
    this.resume();
  }

  /** Pauses the clock while the code waits for a person. */
  pause(): void {
    if (!this.#timer) return;
    this.#timer();
    this.#timer = undefined;
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#startedAt));
  }

  resume(): void {
    if (this.#leftMs <= 0 || this.#timer || this.#kill) return;
    this.#startedAt = performance.now();
    this.#timer = timeoutAfterIo(this.#leftMs, this.#on.timeout);
  }

  /** Starts the grace period of code that was asked to stop. */
  startGrace(): void {
    this.#timer?.();
    this.#timer = undefined;
    this.#kill ??= timeoutAfterIo(this.#graceMs, this.#on.kill);
  }

  stop(): void {
    this.#timer?.();
    this.#kill?.();
  }
}

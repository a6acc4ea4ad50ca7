/** A session in this process: one agent key, one kernel at a time, executions in the order they came. */

import type { Enclosure, Executor } from '../executors/contract.ts';
import { EventListener, EventQueue, type EventSink } from '../kernel/events.ts';
import { Execution, type ExecutionSettings } from '../kernel/execution.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { KernelLink } from '../kernel/link.ts';
import { CellaError } from '../protocol/errors.ts';
import type {
  Death,
  DisplayEvent,
  ExecutionEvent,
  InputRequestEvent,
  OutputEvent,
  ResultEvent,
} from '../protocol/events.ts';
import type {
  Completeness,
  Completion,
  ExecuteOptions,
  HistoryEntry,
  Inspection,
  RunOptions,
  SessionApi,
  Variable,
} from './api.ts';
import { BackgroundLog } from './background.ts';
import { borrowExecutor, wakeSpares } from './executors.ts';
import { parseCompleteness, parseCompletion, parseInspection, parseVariables } from './introspection.ts';
import { Launch } from './launch.ts';
import { type CheckedOptions, checkExecuteOptions, checkOptions, type SessionOptions } from './options.ts';

const MOST_HISTORY = 1000;
const NO_OPTIONS: RunOptions = {};
const NOBODY = 'input() was called, but nobody is there to answer: pass `onInput` to run(), or read stream()';

export class Session implements SessionApi {
  readonly #options: CheckedOptions;
  readonly #executor: Executor;
  readonly #giveBack: () => void;
  readonly #launch: Launch;
  readonly #background = new BackgroundLog();
  readonly #history: HistoryEntry[] = [];
  #enclosure: Enclosure | undefined;
  #kernel: Kernel | undefined;
  #starting: Promise<Kernel> | undefined;
  /** How many kernels this session has had. */
  #generation = 0;
  #changing: Promise<void> = Promise.resolve();
  /** The death that the next result must tell of. */
  #notice: Death | undefined;
  /** A death that was asked for, by reset, restart or close, is no news. */
  #expectedEnd = false;
  #last: Promise<unknown> = Promise.resolve();
  /** Executions that run or wait. */
  #executions = 0;
  /** Questions that are asked or wait. */
  #questions = 0;
  #count = 0;
  #closing: Promise<void> | undefined;

  private constructor(options: CheckedOptions, launch: Launch, executor: Executor, giveBack: () => void) {
    this.#options = options;
    this.#launch = launch;
    this.#executor = executor;
    this.#giveBack = giveBack;
  }

  /** Starts a kernel for this agent key, or says why it cannot. Resolves when the kernel is ready. */
  static async open(options: SessionOptions = {}): Promise<Session> {
    wakeSpares();
    const checked = checkOptions(options);
    const launch = await Launch.prepare(checked);
    const { executor, giveBack } = borrowExecutor(launch.template);
    const session = new Session(checked, launch, executor, giveBack);
    try {
      await session.#live();
      if (checked.spares > 0) executor.keepSpares(launch.spares(checked.spares));
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  get agentKey(): string {
    return this.#options.agentKey;
  }

  /** The folder, on the host, that the code works in. */
  get cwd(): string {
    return this.#launch.cwd;
  }

  /** The process, on the host, that everything in this session descends from; 0 where none lives. */
  get pid(): number {
    return this.#enclosure?.alive ? this.#enclosure.pid : 0;
  }

  async run(code: string, options: RunOptions = NO_OPTIONS): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    const listener = new EventListener<ExecutionEvent>((event) => {
      // Later, for the kernel that asks is in the middle of handling the question.
      if (event.type === 'input_request') queueMicrotask(() => void this.#answer(event, options.onInput));
      try {
        options.onEvent?.(event);
      } catch (error) {
        // The caller's own mistake is the caller's to hear of, when the code is done.
        failure ??= { error };
      }
    });
    const result = await this.#enqueue(code, options, listener).result;
    if (failure) throw failure.error;
    return result;
  }

  stream(code: string, options: ExecuteOptions = NO_OPTIONS): AsyncIterable<ExecutionEvent> {
    const events = new EventQueue<ExecutionEvent>();
    this.#enqueue(code, options, events);
    return events;
  }

  async answerInput(id: number, text: string): Promise<void> {
    this.#asked(id).answerInput(id, text);
  }

  async cancelInput(id: number, reason = 'the request was cancelled'): Promise<void> {
    this.#asked(id).cancelInput(id, reason);
  }

  async interrupt(): Promise<boolean> {
    return this.#kernel?.interrupt() ?? false;
  }

  reset(): Promise<void> {
    return this.#alone(async () => {
      this.#expectedEnd = true;
      await this.#kernel?.kill();
      await this.#live();
    });
  }

  restart(): Promise<void> {
    return this.#alone(async () => {
      this.#expectedEnd = true;
      const enclosure = this.#enclosure;
      await enclosure?.close();
      await this.#kernel?.died;
      if (this.#enclosure === enclosure) this.#enclosure = undefined;
      await this.#live();
    });
  }

  async complete(code: string, cursor = code.length): Promise<Completion> {
    const before = code.slice(0, cursor);
    const answer = await this.#ask('complete', { code, cursor: [...before].length });
    return parseCompletion(answer, cursor);
  }

  async inspect(code: string, cursor = code.length): Promise<Inspection> {
    return parseInspection(await this.#ask('inspect', { code, cursor: [...code.slice(0, cursor)].length }));
  }

  async isComplete(code: string): Promise<Completeness> {
    return parseCompleteness(await this.#ask('isComplete', { code }));
  }

  async history(): Promise<readonly HistoryEntry[]> {
    return [...this.#history];
  }

  async variables(): Promise<readonly Variable[]> {
    return parseVariables(await this.#ask('variables', {}));
  }

  background(): AsyncIterable<OutputEvent | DisplayEvent> {
    return this.#background.read();
  }

  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end(): Promise<void> {
    this.#expectedEnd = true;
    await this.#starting?.catch(() => {}); // `open` or an execution tells of it
    await this.#kernel?.close();
    await this.#enclosure?.close();
    await this.#last;
    this.#background.close();
    this.#giveBack();
  }

  /** One change of kernel at a time, and none while one is starting. */
  async #alone(work: () => Promise<void>): Promise<void> {
    this.#checkOpen();
    const before = this.#changing;
    const done = Promise.withResolvers<void>();
    this.#changing = done.promise;
    try {
      await before;
      await this.#starting?.catch(() => {}); // told to whoever waits for that kernel
      await work();
    } finally {
      done.resolve();
    }
  }

  #enqueue(code: string, options: ExecuteOptions, events: EventSink<ExecutionEvent>): Execution {
    this.#checkOpen();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    if (this.#executions > this.#options.queueLimit) {
      const queued = this.#executions - 1;
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${queued} executions wait for it already.`, {
        details: { queued },
      });
    }
    const execution = new Execution(++this.#count, code, this.#settings(options), events);
    const { signal } = options;
    const takeBack = () =>
      execution.abandon(new CellaError('ABORTED', 'The execution was taken back before it began.'));
    if (signal?.aborted) {
      takeBack();
      return execution;
    }
    signal?.addEventListener('abort', takeBack, { once: true });
    this.#executions++;
    // Once only: what is abandoned may be abandoned twice.
    execution.onEnd = () => {
      execution.onEnd = () => {};
      this.#executions--;
    };
    this.#last = this.#inTurn(this.#executions - 1 + this.#questions, () => this.#perform(execution, signal, takeBack));
    return execution;
  }

  /** After everything that came before, and at once where there is nothing. */
  async #inTurn<T>(before: number, work: () => Promise<T>): Promise<T> {
    if (before > 0) await this.#last;
    return work();
  }

  #settings(options: ExecuteOptions): ExecutionSettings {
    const { timeoutMs, inputTimeoutMs } = options === NO_OPTIONS ? NO_OPTIONS : checkExecuteOptions(options);
    return {
      timeoutMs: timeoutMs ?? this.#options.timeoutMs,
      inputTimeoutMs: inputTimeoutMs ?? this.#options.inputTimeoutMs,
      graceMs: this.#options.graceMs,
      outputLimitBytes: this.#options.outputLimitBytes,
    };
  }

  async #perform(execution: Execution, signal: AbortSignal | undefined, takeBack: () => void): Promise<void> {
    const stop = () => this.#kernel?.running === execution && this.#kernel.interrupt();
    try {
      if (signal?.aborted) return;
      const kernel = this.#kernel?.idle ? this.#kernel : await this.#live();
      if (signal?.aborted) return;
      signal?.removeEventListener('abort', takeBack);
      signal?.addEventListener('abort', stop, { once: true });
      const { status } = await kernel.execute(execution);
      this.#remember({ execution: execution.number, code: execution.code, status });
    } catch (error) {
      execution.abandon(error instanceof Error ? error : new Error(String(error)));
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  #remember(entry: HistoryEntry): void {
    this.#history.push(entry);
    if (this.#history.length > MOST_HISTORY) this.#history.shift();
  }

  async #answer(request: InputRequestEvent, onInput: RunOptions['onInput']): Promise<void> {
    try {
      if (!onInput) await this.cancelInput(request.id, NOBODY);
      else await this.answerInput(request.id, await onInput(request));
    } catch (error) {
      const gone = error instanceof CellaError && error.code === 'INPUT_NOT_PENDING';
      if (!gone) await this.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {}); // answered meanwhile
    }
  }

  #asked(id: number): Kernel {
    if (!this.#kernel)
      throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    return this.#kernel;
  }

  #ask(method: string, params: Record<string, unknown>): Promise<unknown> {
    this.#checkOpen();
    if (this.#executions > 0) {
      throw new CellaError('KERNEL_BUSY', 'The kernel is running code; ask again when it is done.');
    }
    const answer = this.#inTurn(this.#questions++, async () => (await this.#live()).ask(method, params));
    // A failure is told to whoever asked.
    this.#last = answer.then(
      () => this.#questions--,
      () => this.#questions--,
    );
    return answer;
  }

  /** The kernel that lives, started anew where the last one died. */
  #live(): Promise<Kernel> {
    if (this.#closing) return Promise.reject(new CellaError('SESSION_CLOSED', 'The session was closed.'));
    if (!this.#starting && this.#kernel && !this.#kernel.dead) return Promise.resolve(this.#kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #start(): Promise<Kernel> {
    try {
      return await this.#startOnce();
    } catch (error) {
      // A template that was killed a moment ago is not known to be dead before somebody tries it.
      if (!(error instanceof CellaError) || error.code !== 'TEMPLATE_FAILED' || this.#closing) throw error;
      this.#enclosure = undefined;
      return await this.#startOnce();
    }
  }

  async #startOnce(): Promise<Kernel> {
    let first: Promise<KernelLink> | undefined;
    if (!this.#enclosure?.alive) ({ enclosure: this.#enclosure, first } = await this.#launch.open(this.#executor));
    const enclosure = this.#enclosure;
    const link = await (first ?? enclosure.launch({ env: this.#launch.env }));
    const notice = this.#notice;
    this.#notice = undefined;
    this.#expectedEnd = false;
    const kernel = new Kernel(link, (event, bytes) => this.#background.push(event, bytes), notice, this.#generation++);
    this.#kernel = kernel;
    void kernel.died.then((death) => {
      if (!this.#expectedEnd) this.#notice = death;
      // Files in /tmp are memory too: a sandbox that ran out of it may have none left for the next kernel.
      if (death.code === 'KERNEL_OUT_OF_MEMORY') {
        if (this.#enclosure === enclosure) this.#enclosure = undefined;
        void enclosure.close();
      }
    });
    try {
      await kernel.ready;
      return kernel;
    } catch (error) {
      throw enclosure.failure ?? error;
    }
  }

  #checkOpen(): void {
    if (this.#closing) throw new CellaError('SESSION_CLOSED', 'The session was closed.');
  }
}

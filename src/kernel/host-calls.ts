/** Calls of running code to the host: input(), and methods of the namespaces. Bounded; each gets exactly one reply. */

import { giveWay } from '../lib/event-loop.ts';
import { CellaError, errorCodes } from '../protocol/errors.ts';
import type { ExecutionEvent, ProgressEvent } from '../protocol/execution-events.ts';
import { FRAME_COST, type Frame, FrameError, FrameType } from '../protocol/kernel-frames.ts';
import { KernelLimit } from '../protocol/kernel-limits.ts';
import { encodeValue, ValueEncoder } from '../protocol/kernel-marshal.ts';
import { type InputCall, parseInputCall } from '../protocol/kernel-payloads.ts';
import type { PyValue } from '../protocol/py-values.ts';
import type { KernelBudget } from './kernel-budget.ts';
import type { FrameConnection } from './kernel-connection.ts';
import type { KernelExecution } from './kernel-execution.ts';
import type { KernelOutput } from './kernel-output.ts';

/** A kernel keeps to a quarter of it; one that does not is cut off. */
const MOST_CALLS = 4 * KernelLimit.mostCalls;
/** What the reply to a call is reckoned to take until it is known: all that a kernel calls at once has room. */
const REPLY_COST = 1024 * 1024;
/** More than a kernel can number. */
const IDS_PER_GENERATION = 2 ** 32;
const NO_READER = 'input() was called, but nobody reads the events of this cell any more';

interface HostCallsOptions {
  readonly connection: Pick<FrameConnection, 'sendAndDrain'>;
  readonly output: Pick<KernelOutput, 'reached' | 'release'>;
  readonly budget: Pick<KernelBudget, 'take' | 'give' | 'hasRoom' | 'readerHasRoom'>;
  /** Carries out what the code asks for, beside input(). Without it such calls are refused. */
  readonly handler: CallHandler | undefined;
  /** Counts the kernels of a session: an answer to a question of one that is dead must not reach another. */
  readonly generation: number;
  running(): KernelExecution | undefined;
  progress(event: ProgressEvent): void;
  /** Whether the code waits for a person: that is not its own time. */
  asking(waits: boolean): void;
  /** There is room: a call that waits may go on. */
  room(): void;
}

export class HostCalls {
  readonly #options: HostCallsOptions;
  readonly #firstRequest: number;
  readonly #inputs: PendingInputCalls;
  readonly #running: CallRunner;
  /** By the number of its call: what the prompt of each takes. */
  readonly #prompts = new Map<number, number>();
  /** Host calls that wait for a person. */
  #asking = 0;

  constructor(options: HostCallsOptions) {
    this.#options = options;
    this.#firstRequest = options.generation * IDS_PER_GENERATION;
    this.#inputs = new PendingInputCalls((id, reply) => {
      this.#forgetPrompt(id);
      this.#asked();
      const answer: PyValue = 'error' in reply ? { error: ['INPUT', 'runtime', reply.error] } : { value: reply.value };
      void this.#reply(id, encodeValue(answer));
    });
    this.#running = new CallRunner(options.handler, {
      reply: (id, payload, reckoned) => {
        options.budget.give('calls', reckoned);
        return this.#reply(id, payload);
      },
      progress: (task, text) => options.progress({ type: 'progress', task, text }),
      asking: (begins) => {
        this.#asking += begins ? 1 : -1;
        if (begins) options.asking(true);
        else this.#asked();
      },
    });
  }

  answerInput(id: number, text: string): void {
    this.#inputs.reply(id - this.#firstRequest, { value: text });
  }

  cancelInput(id: number, reason: string): void {
    this.#inputs.reply(id - this.#firstRequest, { error: reason });
  }

  /** Returns false if the call must wait. */
  take(frame: Frame, [method, params]: [string, PyValue]): boolean {
    if (this.#inputs.has(frame.id) || this.#running.has(frame.id)) {
      throw new FrameError(`a second call with the number ${frame.id}`);
    }
    if (this.#inputs.size + this.#running.size >= MOST_CALLS) throw new FrameError('too many calls at once');
    if (!this.#options.budget.hasRoom('calls', 1)) return false;
    if (method === 'input') return this.#input(frame.id, parseInputCall(params));
    const reckoned = Math.max(frame.payload.length + FRAME_COST, REPLY_COST);
    this.#options.budget.take('calls', reckoned);
    this.#running.start({ id: frame.id, method, params, reckoned });
    return true;
  }

  /** The code gave up waiting. */
  giveUp(id: number): void {
    this.#running.cancel(id);
    if (this.#inputs.has(id)) this.#inputs.reply(id, { error: 'the code no longer waits' });
  }

  /** Refuses input requests that their reader left unread. */
  refuseUnread(events: readonly ExecutionEvent[]): void {
    for (const event of events) {
      if (event.type !== 'input_request') continue;
      const id = event.id - this.#firstRequest;
      if (this.#inputs.has(id)) this.#inputs.reply(id, { error: NO_READER });
    }
  }

  /** A thread may still wait in input(), which no reader sees any more. */
  cellEnded(): void {
    this.#inputs.replyAll({ error: 'the cell ended before input() was answered' });
  }

  /** Forgets pending inputs: nothing waits for their replies any more. */
  forgetInputs(): void {
    this.#inputs.forget();
    for (const id of [...this.#prompts.keys()]) this.#forgetPrompt(id);
  }

  close(): void {
    this.#running.close();
  }

  #input(id: number, call: InputCall): boolean {
    const { output, running, asking } = this.#options;
    const execution = running();
    if (execution?.number !== call.execution) {
      this.#inputs.add(id);
      this.#inputs.reply(id, { error: 'input() was called while no cell was running' });
      return true;
    }
    // An input request is an event: it waits for a slow reader like all others, or code could send any number.
    if (!output.reached(call.markers) || !this.#options.budget.readerHasRoom) return false;
    output.release(call.markers);
    const size = 2 * call.prompt.length + FRAME_COST;
    this.#options.budget.take('kept', size);
    this.#prompts.set(id, size);
    this.#inputs.add(id, execution.settings.inputTimeoutMs);
    if (execution.events.abandoned) {
      this.#inputs.reply(id, { error: NO_READER });
      return true;
    }
    asking(true);
    const { prompt, password } = call;
    execution.requestInput({ type: 'input_request', id: this.#firstRequest + id, prompt, password });
    return true;
  }

  #forgetPrompt(id: number): void {
    this.#options.budget.give('kept', this.#prompts.get(id) ?? 0);
    this.#prompts.delete(id);
  }

  /** When the last pending question is answered, the execution's clock runs again. */
  #asked(): void {
    if (this.#inputs.size === 0 && this.#asking === 0) this.#options.asking(false);
  }

  /** Code that asks and does not read its replies must not fill the host's memory with them: its next calls wait. */
  async #reply(id: number, payload: Buffer): Promise<void> {
    const size = payload.length + FRAME_COST;
    this.#options.budget.take('calls', size);
    await this.#options.connection.sendAndDrain(FrameType.reply, id, payload);
    this.#options.budget.give('calls', size);
    this.#options.room();
  }
}

type InputReply = { readonly value: string } | { readonly error: string };

class PendingInputCalls {
  readonly #send: (id: number, reply: InputReply) => void;
  readonly #timers = new Map<number, NodeJS.Timeout | undefined>();

  constructor(send: (id: number, reply: InputReply) => void) {
    this.#send = send;
  }

  get size(): number {
    return this.#timers.size;
  }

  has(id: number): boolean {
    return this.#timers.has(id);
  }

  /** `timeoutMs` 0 waits for ever. */
  add(id: number, timeoutMs = 0): void {
    const giveUp = () => this.reply(id, { error: `nobody answered within ${timeoutMs / 1000} s` });
    this.#timers.set(id, timeoutMs > 0 ? setTimeout(giveUp, timeoutMs) : undefined);
  }

  reply(id: number, reply: InputReply): void {
    if (!this.#timers.has(id)) {
      throw new CellaError('INPUT_NOT_PENDING', `No input() waits for an answer with the number ${id}.`);
    }
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#send(id, reply);
  }

  replyAll(reply: InputReply): void {
    for (const id of [...this.#timers.keys()]) this.reply(id, reply);
  }

  /** Forgets them without a reply. */
  forget(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}

/** What the work may do beside its reply. */
interface HostCallContext {
  /** Aborted when the code no longer waits, or is dead. */
  readonly signal: AbortSignal;
  progress(text: string): void;
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
}

/** Carries out the calls of one kernel. The code gets the errors that it throws. */
export interface CallHandler {
  call(method: string, params: PyValue, context: HostCallContext): Promise<PyValue>;
  /** The kernel is gone: nothing that it has opened is needed any more. */
  close(): void;
}

interface HostCall {
  readonly id: number;
  readonly method: string;
  readonly params: PyValue;
  /** How many bytes it is reckoned to hold with its reply. */
  readonly reckoned: number;
}

interface CallRunnerHooks {
  /** Resolves when the kernel has taken it, or is gone. */
  reply(id: number, payload: Buffer, reckoned: number): Promise<void>;
  progress(method: string, text: string): void;
  /** Whether it waits for a person. */
  asking(begins: boolean): void;
}

/** How Python tells refusals apart: by the class of the exception that it raises. */
type PythonErrorKind = 'value' | 'lookup' | 'permission' | 'timeout' | 'runtime';

/** Their replies may be large: one after the other, so that the host holds one of them at a time. */
const LARGE_REPLY_METHODS: ReadonlySet<string> = new Set([
  'artifacts.read',
  'artifacts.list',
  'skills.list',
  'skills.search',
]);
/** More than the largest `output_limit` of a tool. */
const MOST_REPLY_BYTES = 80 * 1024 * 1024;

export class CallRunner {
  readonly #handler: CallHandler | undefined;
  readonly #events: CallRunnerHooks;
  readonly #running = new Map<number, AbortController>();
  #bulky: Promise<void> = Promise.resolve();

  constructor(handler: CallHandler | undefined, events: CallRunnerHooks) {
    this.#handler = handler;
    this.#events = events;
  }

  get size(): number {
    return this.#running.size;
  }

  has(id: number): boolean {
    return this.#running.has(id);
  }

  start({ id, method, params, reckoned }: HostCall): void {
    const controller = new AbortController();
    this.#running.set(id, controller);
    const work = async () => {
      if (!this.#running.has(id)) return;
      const reply = await this.#perform(method, params, controller.signal);
      // A dead kernel gets no reply.
      if (this.#running.delete(id)) await this.#events.reply(id, reply, reckoned);
    };
    if (LARGE_REPLY_METHODS.has(method)) this.#bulky = this.#bulky.then(work);
    else void work();
  }

  /** The code no longer waits. The call is still replied to, so that its number is free again. */
  cancel(id: number): void {
    this.#running.get(id)?.abort(new CellaError('ABORTED', 'The code no longer waits for this call.'));
  }

  close(): void {
    const all = [...this.#running.values()];
    this.#running.clear();
    for (const controller of all) controller.abort(new CellaError('KERNEL_DIED', 'The kernel that asked is dead.'));
    this.#handler?.close();
  }

  async #perform(method: string, params: PyValue, signal: AbortSignal): Promise<Buffer> {
    const context: HostCallContext = {
      signal,
      progress: (text) => this.#events.progress(method, text),
      whileAsking: async (work) => {
        this.#events.asking(true);
        try {
          return await work();
        } finally {
          this.#events.asking(false);
        }
      },
    };
    try {
      if (!this.#handler) throw new CellaError('INVALID_OPTIONS', `Nothing answers ${method} here.`);
      return await encodeInSlices(method, await this.#handler.call(method, params, context));
    } catch (error) {
      return encodeRefusal(error);
    }
  }
}

/** A small one at once; a large one does not keep others from their turn. */
async function encodeInSlices(method: string, value: PyValue): Promise<Buffer> {
  const encoder = new ValueEncoder({ value });
  while (!encoder.step() && encoder.length <= MOST_REPLY_BYTES) await giveWay();
  if (encoder.length <= MOST_REPLY_BYTES) return encoder.bytes;
  const message = `What ${method} gives is more than ${MOST_REPLY_BYTES} bytes, too large for one reply. Ask for less of it.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function encodeRefusal(error: unknown): Buffer {
  if (!(error instanceof CellaError)) {
    // A mistake of ours: the operator learns all of it, the code that there was one, and nothing of the host's insides.
    process.emitWarning(error instanceof Error ? error : new Error(String(error)));
    return encodeValue({ error: ['INTERNAL', 'runtime', 'The host failed to carry this out, and has said why.'] });
  }
  return encodeValue({ error: [error.code, kindOf(error), error.message] });
}

function kindOf({ code }: CellaError): PythonErrorKind {
  const { http } = errorCodes[code];
  if (http === 404) return 'lookup';
  if (http === 403) return 'permission';
  if (http === 504) return 'timeout';
  return http < 500 ? 'value' : 'runtime';
}

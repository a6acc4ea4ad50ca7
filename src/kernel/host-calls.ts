/** Calls from running code to the host: input(), and methods of the namespaces. Bounded; each call gets exactly one reply. */

import { giveWay } from '../lib/event-loop.ts';
import { asError } from '../lib/values.ts';
import { errorCodes } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent, ProgressEvent } from '../protocol/execution-events.ts';
import { FRAME_COST, type Frame, FrameError, FrameType, KernelLimit } from '../protocol/kernel-frames.ts';
import { encodeValue, ValueEncoder } from '../protocol/kernel-marshal.ts';
import { type InputCall, type ParsedCall, parseInputCall } from '../protocol/kernel-payloads.ts';
import type { PyValue } from '../protocol/py-values.ts';
import type { KernelBudget } from './kernel-budget.ts';
import type { FrameConnection } from './kernel-connection.ts';
import type { KernelExecution } from './kernel-execution.ts';
import type { KernelOutput } from './kernel-output.ts';

/** A kernel limits itself to a quarter of this. A kernel that exceeds it is cut off. */
const MOST_CALLS = 4 * KernelLimit.mostCalls;
/** The assumed size of a reply until it is known. There is room for all calls that a kernel may make at once. */
const REPLY_COST = 1024 * 1024;
/** More bytes than any item of a parsed call takes. */
const ITEM_COST = 256;
/** More requests than one kernel can number. */
const IDS_PER_GENERATION = 2 ** 32;
const NO_READER = 'input() was called, but no client reads the events of this cell any more';

interface HostCallsOptions {
  readonly connection: Pick<FrameConnection, 'sendAndDrain'>;
  readonly output: Pick<KernelOutput, 'reached' | 'release'>;
  readonly budget: Pick<KernelBudget, 'take' | 'give' | 'hasRoom' | 'readerHasRoom'>;
  /** Handles calls other than input(). Without a handler such calls are refused. */
  readonly handler: CallHandler | undefined;
  /** Counts the kernels of a session, so that an answer for a dead kernel does not reach the next one. */
  readonly generation: number;
  running(): KernelExecution | undefined;
  progress(event: ProgressEvent): void;
  /** Reports whether the code is waiting for a person. That time does not count towards its timeout. */
  asking(waits: boolean): void;
  /** Called when there is room, so that waiting calls can continue. */
  room(): void;
}

export class HostCalls {
  readonly #options: HostCallsOptions;
  readonly #firstRequest: number;
  readonly #inputs: PendingInputCalls;
  readonly #running: HostCallRunner;
  /** The size of each prompt, by call id. */
  readonly #prompts = new Map<number, number>();
  /** The number of replies that the kernel has not accepted. */
  #unaccepted = 0;
  /** The number of host calls that wait for a person. */
  #asking = 0;

  constructor(options: HostCallsOptions) {
    this.#options = options;
    this.#firstRequest = options.generation * IDS_PER_GENERATION;
    this.#inputs = new PendingInputCalls((id, reply) => {
      this.#forgetPrompt(id);
      this.#resumeClock();
      const answer: PyValue = 'error' in reply ? { error: ['INPUT', 'runtime', reply.error] } : { value: reply.value };
      void this.#reply(id, encodeValue(answer));
    });
    this.#running = new HostCallRunner(options.handler, {
      reply: (id, payload, estimatedBytes) => {
        options.budget.give('calls', estimatedBytes);
        return this.#reply(id, payload);
      },
      progress: (task, text) => options.progress({ type: 'progress', task, text }),
      asking: (begins) => {
        this.#asking += begins ? 1 : -1;
        if (begins) options.asking(true);
        else this.#resumeClock();
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
  take(frame: Frame, { method, params, items }: ParsedCall): boolean {
    if (this.#inputs.has(frame.id) || this.#running.has(frame.id)) {
      throw new FrameError(`a second call with the number ${frame.id}`);
    }
    if (this.#inputs.size + this.#running.size >= MOST_CALLS) throw new FrameError('too many calls at once');
    // A kernel that makes calls without reading the replies must not fill the host's memory: its next calls wait.
    if (this.#unaccepted >= MOST_CALLS || !this.#options.budget.hasRoom('calls', 1)) return false;
    if (method === 'input') return this.#input(frame.id, parseInputCall(params));
    const estimatedBytes = Math.max(frame.payload.length + FRAME_COST + ITEM_COST * items, REPLY_COST);
    this.#options.budget.take('calls', estimatedBytes);
    this.#running.start({ id: frame.id, method, params, estimatedBytes });
    return true;
  }

  /** Called when the code stops waiting for the reply. */
  giveUp(id: number): void {
    this.#running.cancel(id);
    if (this.#inputs.has(id)) this.#inputs.reply(id, { error: 'the code no longer waits' });
  }

  /** Refuses input requests that the reader left unread. */
  refuseUnread(events: readonly ExecutionEvent[]): void {
    for (const event of events) {
      if (event.type !== 'input_request') continue;
      const id = event.id - this.#firstRequest;
      if (this.#inputs.has(id)) this.#inputs.reply(id, { error: NO_READER });
    }
  }

  /** Refuses pending input(): a thread may still wait there, but the reader is gone. */
  cellEnded(): void {
    this.#inputs.replyAll({ error: 'the cell ended before input() was answered' });
  }

  /** Forgets pending inputs whose replies are no longer needed. */
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
    // An input request is an event and waits for a slow reader like any other. Otherwise code could send any number of them.
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

  /** Lets the execution's clock run again if no question is pending. */
  #resumeClock(): void {
    if (this.#inputs.size === 0 && this.#asking === 0) this.#options.asking(false);
  }

  async #reply(id: number, payload: Buffer): Promise<void> {
    const size = payload.length + FRAME_COST;
    this.#options.budget.take('calls', size);
    this.#unaccepted += 1;
    await this.#options.connection.sendAndDrain(FrameType.reply, id, payload);
    this.#unaccepted -= 1;
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

  /** `timeoutMs` 0 waits without a timeout. */
  add(id: number, timeoutMs = 0): void {
    const giveUp = () => this.reply(id, { error: `nobody answered within ${timeoutMs / 1000} s` });
    this.#timers.set(id, timeoutMs > 0 ? setTimeout(giveUp, timeoutMs) : undefined);
  }

  reply(id: number, reply: InputReply): void {
    if (!this.#timers.has(id)) {
      throw new CellaError('INPUT_NOT_PENDING', `No input() is waiting for an answer with the id ${id}.`);
    }
    clearTimeout(this.#timers.get(id));
    this.#timers.delete(id);
    this.#send(id, reply);
  }

  replyAll(reply: InputReply): void {
    for (const id of [...this.#timers.keys()]) this.reply(id, reply);
  }

  /** Forgets all without a reply. */
  forget(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }
}

/** What a handler can use besides its reply. */
interface HostCallContext {
  /** Aborts when the code no longer waits, or its kernel is dead. */
  readonly signal: AbortSignal;
  /** Resolves when the kernel has accepted the reply, or is gone. */
  readonly delivered: Promise<void>;
  progress(text: string): void;
  whileAsking<T>(work: () => Promise<T>): Promise<T>;
}

/** Handles the calls of one kernel. Its errors are raised in the code. */
export interface CallHandler {
  call(method: string, params: PyValue, context: HostCallContext): Promise<PyValue>;
  /** The kernel is gone: releases everything it opened. */
  close(): void;
}

interface HostCall {
  readonly id: number;
  readonly method: string;
  /** Removed when the call begins: only its size counts while its reply waits for the kernel. */
  params: PyValue | undefined;
  /** The estimated size of the call and its reply, in bytes. */
  readonly estimatedBytes: number;
}

interface HostCallRunnerHooks {
  /** Resolves when the kernel has accepted the reply, or is gone. */
  reply(id: number, payload: Buffer, estimatedBytes: number): Promise<void>;
  progress(method: string, text: string): void;
  /** Reports that a call starts or stops waiting for a person. */
  asking(begins: boolean): void;
}

/** Maps refusals to Python exception classes. */
type PythonErrorKind = 'value' | 'lookup' | 'permission' | 'timeout' | 'runtime';

/** Methods with possibly large replies, which run one after the other so that the host holds only one at a time. */
const LARGE_REPLY_METHODS: ReadonlySet<string> = new Set([
  'artifacts.read',
  'artifacts.list',
  'skills.list',
  'skills.search',
]);
/** More than the largest `output_limit` of a tool. */
const MOST_REPLY_BYTES = 80 * 1024 * 1024;

export class HostCallRunner {
  readonly #handler: CallHandler | undefined;
  readonly #events: HostCallRunnerHooks;
  readonly #running = new Map<number, AbortController>();
  #largeReplies: Promise<void> = Promise.resolve();

  constructor(handler: CallHandler | undefined, events: HostCallRunnerHooks) {
    this.#handler = handler;
    this.#events = events;
  }

  get size(): number {
    return this.#running.size;
  }

  has(id: number): boolean {
    return this.#running.has(id);
  }

  start(call: HostCall): void {
    const { id, method, estimatedBytes } = call;
    const controller = new AbortController();
    const delivered = Promise.withResolvers<void>();
    this.#running.set(id, controller);
    const work = async () => {
      if (!this.#running.has(id)) return;
      const reply = await this.#perform(call, controller.signal, delivered.promise);
      // A dead kernel gets no reply.
      if (this.#running.delete(id)) await this.#events.reply(id, reply, estimatedBytes);
      delivered.resolve();
    };
    if (LARGE_REPLY_METHODS.has(method)) this.#largeReplies = this.#largeReplies.then(work);
    else void work();
  }

  /** Called when the code no longer waits. The call still gets a reply, so that its id becomes free. */
  cancel(id: number): void {
    this.#running.get(id)?.abort(new CellaError('ABORTED', 'The code no longer waits for this call.'));
  }

  close(): void {
    const all = [...this.#running.values()];
    this.#running.clear();
    for (const controller of all) controller.abort(new CellaError('KERNEL_DIED', 'The kernel of this call has died.'));
    this.#handler?.close();
  }

  async #perform(call: HostCall, signal: AbortSignal, delivered: Promise<void>): Promise<Buffer> {
    const { method, params = null } = call;
    call.params = undefined;
    const context: HostCallContext = {
      signal,
      delivered,
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

/** Encodes a small value at once, and a large one in slices, so that others get their turn. */
async function encodeInSlices(method: string, value: PyValue): Promise<Buffer> {
  const encoder = new ValueEncoder({ value });
  while (!encoder.step() && encoder.length <= MOST_REPLY_BYTES) await giveWay();
  if (encoder.length <= MOST_REPLY_BYTES) return encoder.bytes;
  const message = `The result of ${method} has more than ${MOST_REPLY_BYTES} bytes, too many for one reply. Request less at once.`;
  throw new CellaError('INVALID_OPTIONS', message);
}

function encodeRefusal(error: unknown): Buffer {
  if (!(error instanceof CellaError)) {
    // A bug in Cella: the operator sees the details; the code learns only that an error happened.
    process.emitWarning(asError(error));
    return encodeValue({ error: ['INTERNAL', 'runtime', 'The host could not do this; its log says why.'] });
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

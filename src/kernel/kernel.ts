/** One live interpreter seen from the host: one execution or question at a time, every frame checked. */

import { encodeValue } from '../protocol/encode-value.ts';
import { CellaError } from '../protocol/errors.ts';
import type {
  Death,
  DisplayEvent,
  ExecutionEvent,
  Notice,
  OutputEvent,
  ProgressEvent,
  ResultEvent,
} from '../protocol/events.ts';
import { type Frame, FrameError, FrameType } from '../protocol/frames.ts';
import {
  type DisplayPayload,
  type HelloPayload,
  type InputCall,
  type LoadedPayload,
  type PartHeader,
  parseAnswer,
  parseCall,
  parseDisplay,
  parseFailed,
  parseHello,
  parseInputCall,
  parseLoaded,
  parsePart,
  parseResult,
  parseSaved,
  parseTwinned,
  type ResultPayload,
  type SavedPayload,
} from '../protocol/kernel.ts';
import { refusal } from '../protocol/refusal.ts';
import { encodeText, type PyValue } from '../protocol/values.ts';
import { Calls } from './calls.ts';
import { describeDeath } from './death.ts';
import type { Execution, StopReason } from './execution.ts';
import { type CallHandler, HostCalls } from './host-calls.ts';
import { whenLate } from './late.ts';
import type { Exit, KernelLink } from './link.ts';
import { newMark } from './mark.ts';
import { Outputs, type StreamName } from './outputs.ts';
import { type AnyQuestion, Question, type QuestionSettings } from './question.ts';
import { Queue } from './queue.ts';
import { type LoadableSegment, sendSegments } from './segments.ts';
import { StopClock } from './stop-clock.ts';
import { stopWatching, watchFor } from './vigil.ts';

/** A kernel keeps to fewer; one that does not is cut off. */
const MOST_CALLS = 256;
/** More than a kernel can number. */
const REQUESTS = 2 ** 32;
const MOST_WAITING_BYTES = 64 * 1024 * 1024;
const MOST_CALL_BYTES = 64 * 1024 * 1024;
/** What a frame that waits takes beside its payload. */
const FRAME_COST = 256;
/** What the reply to a call is reckoned to take until it is known: all that a kernel calls at once has room. */
const REPLY_COST = 1024 * 1024;
const NO_READER = 'input() was called, but nobody reads the events of this cell any more';
const QUESTION_TIMEOUT_MS = 10_000;
const QUESTION_GRACE_MS = 2000;
/** A kernel that has ended before it said hello has said why by then. */
const LAST_WORDS_MS = 1000;
/** There is one save or load at a time. */
const DURABLE = 1;
/** Past its own deadline, a kernel that saves has this long to say how it went. */
const SAVE_GRACE_MS = 5000;
/** Questions have numbers of their own, apart from executions, so that an interrupt can tell them apart. */
const QUESTION_BIT = 0x80000000;

/** What a kernel is told when it begins. */
export interface KernelSettings {
  /** Takes what the code shows while no cell runs. */
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Carries out what the code asks of the host, beside input(). Without it such calls are refused. */
  readonly handler?: CallHandler | undefined;
  /** For the first result. */
  readonly notice?: Notice | undefined;
  /** Counts the kernels of a session: an answer to a question of one that is dead must not reach another. */
  readonly generation?: number;
  /** The executions that its memory may know of, also from before it was forked: nothing belongs to a later one. */
  readonly executions?: () => number;
}

/** A frame in its turn: taken apart once, however often it has to wait. */
interface Waiting {
  readonly frame: Frame;
  parsed?: unknown;
}

/** How a kernel saves its namespace. */
export interface SaveSettings {
  readonly limitBytes: number;
  readonly seconds: number;
}

type State =
  | { readonly kind: 'starting' }
  | { readonly kind: 'idle' }
  | { readonly kind: 'running'; readonly execution: Execution }
  | { readonly kind: 'answering'; readonly question: AnyQuestion }
  | { readonly kind: 'dead'; readonly death: Death };

export class Kernel {
  readonly #link: KernelLink;
  readonly #outputs: Outputs;
  readonly #background: KernelSettings['background'];
  readonly #executions: () => number;
  #lastEnded: number | undefined;
  /** For the first result. */
  notice: Notice | undefined;
  readonly #firstRequest: number;
  readonly #calls: Calls;
  readonly #hostCalls: HostCalls;
  #asking = 0;
  readonly #ready = Promise.withResolvers<HelloPayload>();
  readonly #died = Promise.withResolvers<Death>();
  #state: State = { kind: 'starting' };
  readonly #frames = new Queue<Waiting>();
  #waitingBytes = 0;
  /** Of calls that are carried out, and of replies that the kernel has not taken. */
  #callBytes = 0;
  #pumping = false;
  #clock: StopClock | undefined;
  #questions = 0;
  #finished = 0;
  #violation: string | undefined;
  #closing = false;
  /** It was killed, and may not know it yet. */
  #doomed = false;
  /** Nothing more comes from the kernel. */
  readonly #heard = Promise.withResolvers<void>();

  constructor(link: KernelLink, { background, handler, notice, generation = 0, executions }: KernelSettings) {
    this.#link = link;
    this.#executions = executions ?? (() => 0);
    this.#firstRequest = generation * REQUESTS;
    this.#background = background;
    this.notice = notice;
    this.#calls = new Calls((id, reply) => {
      this.#asked();
      const answer = 'error' in reply ? { error: ['INPUT', 'runtime', reply.error] } : { value: reply.value };
      void this.#reply(id, encodeValue(answer));
    });
    this.#hostCalls = new HostCalls(handler, {
      reply: (id, payload, held) => {
        this.#callBytes -= held;
        return this.#reply(id, payload);
      },
      progress: (task, text) => this.#progress({ type: 'progress', task, text }),
      asking: (begins) => {
        this.#asking += begins ? 1 : -1;
        if (begins) this.#clock?.pause();
        else this.#asked();
      },
    });
    // A kernel that nobody asks about must not end the host with an unhandled rejection.
    this.#ready.promise.catch(() => {});
    this.#outputs = new Outputs(
      link,
      (name, text, owner) => this.#output(name, text, owner),
      () => this.#pump(),
    );
    link.control.read(
      (frame) => this.#receive(frame),
      (problem) => this.#disconnected(problem),
    );
    void link.exited.then(async (exit) => {
      // Why it could not be closed in is said on another connection than that it has ended, and may come after it.
      if (this.#state.kind === 'starting' && !this.#closing) await this.#lastWords();
      await this.#bury(exit);
    });
  }

  /** Resolves when the interpreter says hello; rejects where it dies before. */
  get ready(): Promise<HelloPayload> {
    return this.#ready.promise;
  }

  get died(): Promise<Death> {
    return this.#died.promise;
  }

  get dead(): Death | undefined {
    return this.#state.kind === 'dead' ? this.#state.death : undefined;
  }

  get idle(): boolean {
    return this.#state.kind === 'idle';
  }

  get running(): Execution | undefined {
    return this.#state.kind === 'running' ? this.#state.execution : undefined;
  }

  /** The caller keeps to one execution at a time. */
  execute(execution: Execution): Promise<ResultEvent> {
    this.#checkIdle();
    const payload = encodeText(execution.code);
    const mark = newMark();
    this.#outputs.begin(mark);
    this.#state = { kind: 'running', execution };
    execution.events.onRoom = () => this.#resumeOutput();
    execution.events.onUnread = (events) => this.#refuseUnread(events);
    execution.start();
    this.#clock = new StopClock(execution.settings, {
      timeout: () => this.#stop(execution, 'timeout'),
      kill: () => this.#doom(),
    });
    this.#link.control.send(FrameType.execute, execution.number, Buffer.concat([mark, payload]));
    watchFor(this);
    return execution.result;
  }

  /** Asks about the namespace. The code's own objects may answer, so it is interrupted when it takes too long. */
  ask(method: string, params: Record<string, unknown>): Promise<PyValue> {
    this.#questions = (this.#questions + 1) % 0x7fffffff;
    const question: Question<PyValue> = this.#put((QUESTION_BIT | this.#questions) >>> 0, {
      answer: FrameType.answer,
      parse: parseAnswerValue,
      timeoutMs: QUESTION_TIMEOUT_MS,
      onTimeout: () => {
        this.#link.interrupt(question.id);
        question.extend(QUESTION_GRACE_MS, () => this.#doom());
      },
    });
    this.#link.control.send(FrameType.request, question.id, JSON.stringify({ method, params }));
    return question.result;
  }

  /** Has the kernel keep this moment as a frozen fork of that number; rejects with FORK_UNSAFE where it cannot. */
  twin(number: number): Promise<void> {
    const parse = (payload: Buffer): void => {
      const { unsafe } = parseTwinned(payload);
      if (unsafe !== undefined) throw new CellaError('FORK_UNSAFE', `The kernel cannot be forked: ${unsafe}.`);
    };
    const question = this.#put(number, { answer: FrameType.twinned, parse, timeoutMs: QUESTION_TIMEOUT_MS });
    this.#link.control.send(FrameType.twin, number);
    return question.result;
  }

  /** Has the kernel take its namespace apart. `part` gets the pieces as they come. */
  save(settings: SaveSettings, part: (header: PartHeader, bytes: Buffer) => void): Promise<SavedPayload> {
    const question = this.#put(DURABLE, {
      answer: FrameType.saved,
      parse: parseSaved,
      timeoutMs: settings.seconds * 1000 + SAVE_GRACE_MS,
      part: (payload) => {
        const { header, bytes } = parsePart(payload);
        part(header, bytes);
      },
    });
    this.#link.control.send(FrameType.save, DURABLE, JSON.stringify(settings));
    return question.result;
  }

  /** Has the kernel replace its namespace by what was saved, on the Python that is named. */
  async load(python: string, segments: AsyncIterable<LoadableSegment>, timeoutMs: number): Promise<LoadedPayload> {
    const question = this.#put(DURABLE, { answer: FrameType.loaded, parse: parseLoaded, timeoutMs });
    await sendSegments(this.#link.control, DURABLE, python, segments);
    return await question.result;
  }

  pause(): void {
    this.#link.control.pause();
  }

  resume(): void {
    this.#link.control.resume();
  }

  interrupt(): boolean {
    if (this.#state.kind !== 'running') return false;
    this.#stop(this.#state.execution, 'interrupt');
    return true;
  }

  answerInput(id: number, text: string): void {
    this.#calls.reply(id - this.#firstRequest, { value: text });
  }

  cancelInput(id: number, reason: string): void {
    this.#calls.reply(id - this.#firstRequest, { error: reason });
  }

  /** Ends the kernel; what ran gets a result that says so. */
  async kill(): Promise<void> {
    // The sandbox may have another kernel by the time that one is dead.
    if (this.#state.kind !== 'dead') this.#doom();
    await this.#died.promise;
  }

  /** Ends the kernel for good, and waits until it is gone. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.kill();
  }

  /** Text without an owner belongs to what runs, or else to what ran last. */
  #output(type: StreamName, text: string, owner?: number): boolean {
    const stated = owner !== undefined && this.#knows(owner) ? owner : undefined;
    const { running } = this;
    if (running && (stated ?? running.number) === running.number) return running.output(type, text);
    this.#background({ type, text, ...late(stated ?? this.#lastEnded) }, text.length);
    return true;
  }

  #knows(execution: number): boolean {
    return execution > 0 && execution <= this.#executions();
  }

  #resumeOutput(): void {
    this.#outputs.resume();
    this.#link.control.resume();
    this.#pump();
  }

  #stop(execution: Execution, reason: StopReason): void {
    if (this.running !== execution) return;
    execution.stopped ??= reason;
    this.#link.interrupt(execution.number);
    this.#clock?.grace();
    // A reader that has stopped reading must not keep the code from stopping.
    execution.events.drain();
  }

  #receive(frame: Frame): void {
    // A kernel that was cut off or killed is dying: nothing that it still sends is heard.
    if (this.#violation !== undefined || this.#doomed) return;
    this.#frames.push({ frame });
    this.#waitingBytes += sizeOf(frame);
    // What waits for output to be read must not fill the host's memory meanwhile.
    if (this.#waitingBytes > MOST_WAITING_BYTES) this.#link.control.pause();
    this.#pump();
  }

  /** Handles frames in order, each when the output before it has been delivered. */
  #pump(): void {
    // Handling a frame lets output go on, which may come back here for the next frame.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let next = this.#frames.first; next && this.#state.kind !== 'dead'; next = this.#frames.first) {
        if (!this.#handle(next)) break;
        this.#frames.shift();
        const before = this.#waitingBytes;
        this.#waitingBytes -= sizeOf(next.frame);
        if (before > MOST_WAITING_BYTES && this.#waitingBytes <= MOST_WAITING_BYTES) this.#link.control.resume();
      }
    } catch (error) {
      this.#cutOff(error instanceof FrameError ? error.message : String(error));
    } finally {
      this.#pumping = false;
    }
  }

  /** Returns false where the frame must wait. */
  #handle(next: Waiting): boolean {
    const { frame } = next;
    switch (frame.type) {
      case FrameType.hello:
        return this.#hello(parseHello(frame.payload));
      case FrameType.result:
        return this.#result(frame, once(next, parseResult));
      case FrameType.display:
        return this.#display(frame, once(next, parseDisplay));
      case FrameType.call:
        return this.#call(frame, once(next, parseCall));
      case FrameType.cancel:
        return this.#cancel(frame);
      case FrameType.answer:
      case FrameType.twinned:
      case FrameType.saved:
      case FrameType.loaded:
        return this.#answer(frame);
      case FrameType.part:
        return this.#part(frame);
      case FrameType.failed:
        return this.#failed(frame);
      default:
        throw new FrameError(`a frame of type ${frame.type} out of place`);
    }
  }

  #hello(hello: HelloPayload): boolean {
    if (this.#state.kind !== 'starting') throw new FrameError('a second hello');
    this.#outputs.open(hello.label);
    this.#state = { kind: 'idle' };
    this.#ready.resolve(hello);
    return true;
  }

  #result(frame: Frame, payload: ResultPayload): boolean {
    if (this.#state.kind !== 'running' || this.#state.execution.number !== frame.id) {
      throw new FrameError(`a result for execution ${frame.id}, which does not run`);
    }
    const { execution } = this.#state;
    if (!this.#outputs.reached(payload.marks)) return false;
    // It came before the kill, and has waited: no other cell may run where the next moment is the last.
    if (this.#doomed) return true;
    this.#outputs.finish();
    // A thread may still wait in input(), and nobody hears of it any more.
    this.#calls.replyAll({ error: 'the cell ended before input() was answered' });
    this.#leave();
    this.#state = { kind: 'idle' };
    this.#lastEnded = execution.number;
    const notice = this.#finished++ === 0 ? this.notice : undefined;
    execution.finish(payload, notice);
    return true;
  }

  #progress(event: ProgressEvent): void {
    if (this.#state.kind === 'running') this.#state.execution.progress(event);
    else this.#background(event, event.text.length);
  }

  /** A question was answered: where it was the last one, the cell's time goes on. */
  #asked(): void {
    if (this.#calls.size === 0 && this.#asking === 0) this.#clock?.resume();
  }

  #display(frame: Frame, payload: DisplayPayload): boolean {
    const event: DisplayEvent = { type: 'display', data: payload.data };
    const { running } = this;
    // By a thread or a task whose cell is over: the next may be on its way to the kernel already.
    if (frame.id !== running?.number) {
      if (frame.id !== 0 && !this.#knows(frame.id)) throw new FrameError(`a display for execution ${frame.id}`);
      this.#background({ ...event, ...late(frame.id || this.#lastEnded) }, frame.payload.length);
      return true;
    }
    if (!this.#outputs.reached(payload.marks)) return false;
    if (!running.display(event, frame.payload.length)) this.#link.control.pause();
    this.#outputs.release(payload.marks);
    return true;
  }

  #call(frame: Frame, [method, params]: [string, PyValue]): boolean {
    if (this.#calls.has(frame.id) || this.#hostCalls.has(frame.id)) {
      throw new FrameError(`a second call with the number ${frame.id}`);
    }
    if (this.#calls.size + this.#hostCalls.size >= MOST_CALLS) throw new FrameError('too many calls at once');
    if (this.#callBytes >= MOST_CALL_BYTES) return false;
    if (method !== 'input') {
      const held = Math.max(frame.payload.length, REPLY_COST);
      this.#callBytes += held;
      this.#hostCalls.start({ id: frame.id, method, params, held });
      return true;
    }
    const call = parseInputCall(params);
    if (this.#state.kind !== 'running' || this.#state.execution.number !== call.execution) {
      this.#calls.add(frame.id);
      this.#calls.reply(frame.id, { error: 'input() was called while no cell was running' });
      return true;
    }
    if (!this.#outputs.reached(call.marks)) return false;
    this.#outputs.release(call.marks);
    this.#askForInput(this.#state.execution, frame.id, call);
    return true;
  }

  /** Code that asks and does not read its replies must not fill the host's memory with them: its next calls wait. */
  async #reply(id: number, payload: Buffer): Promise<void> {
    const size = payload.length + FRAME_COST;
    this.#callBytes += size;
    await this.#link.control.sendSlowly(FrameType.reply, id, payload);
    this.#callBytes -= size;
    this.#pump();
  }

  /** The code gave up waiting. */
  #cancel(frame: Frame): boolean {
    this.#hostCalls.cancel(frame.id);
    if (this.#calls.has(frame.id)) this.#calls.reply(frame.id, { error: 'the code no longer waits' });
    return true;
  }

  #askForInput(execution: Execution, id: number, call: InputCall): void {
    this.#calls.add(id, execution.settings.inputTimeoutMs);
    if (execution.events.abandoned) {
      this.#calls.reply(id, { error: NO_READER });
      return;
    }
    this.#clock?.pause();
    execution.ask({
      type: 'input_request',
      id: this.#firstRequest + id,
      prompt: call.prompt,
      password: call.password,
    });
  }

  /** Nobody will ever hear of these requests. */
  #refuseUnread(events: readonly ExecutionEvent[]): void {
    for (const event of events) {
      if (event.type !== 'input_request') continue;
      const id = event.id - this.#firstRequest;
      if (this.#calls.has(id)) this.#calls.reply(id, { error: NO_READER });
    }
  }

  #put<T>(
    id: number,
    settings: Omit<QuestionSettings<T>, 'onTimeout'> & Partial<Pick<QuestionSettings<T>, 'onTimeout'>>,
  ): Question<T> {
    this.#checkIdle();
    // One that does not answer is no use any more.
    const question = new Question(id, { onTimeout: () => this.#doom(), ...settings });
    this.#state = { kind: 'answering', question };
    return question;
  }

  #checkIdle(): void {
    if (this.#state.kind === 'idle') return;
    if (this.#state.kind !== 'dead') throw new CellaError('KERNEL_BUSY', 'The kernel is running code.');
    const { death } = this.#state;
    throw new CellaError(death.code, death.message, { details: { ...death } });
  }

  #answer(frame: Frame): boolean {
    const question = this.#state.kind === 'answering' ? this.#state.question : undefined;
    if (question?.id !== frame.id || question.answer !== frame.type) throw new FrameError('an answer to no question');
    if (this.#doomed) return true;
    this.#state = { kind: 'idle' };
    question.settle(frame.payload);
    return true;
  }

  #part(frame: Frame): boolean {
    const question = this.#state.kind === 'answering' ? this.#state.question : undefined;
    if (question?.id !== frame.id) throw new FrameError('a part of no answer');
    question.part(frame.payload);
    return true;
  }

  /** Before it could say hello: it was not closed in, and has run nothing. */
  #failed(frame: Frame): boolean {
    if (this.#state.kind !== 'starting') throw new FrameError('a failed start of a kernel that runs');
    const { layer, message } = parseFailed(frame.payload);
    this.#ready.reject(refusal(layer, message));
    void this.#bury({ outOfMemory: false, lost: 'it could not be closed in' });
    return true;
  }

  /** The connection ended. Where the process lives on, it has closed it, and is no kernel any more. */
  #disconnected(problem?: Error): void {
    this.#heard.resolve();
    if (this.#state.kind === 'dead') return;
    if (problem instanceof FrameError) this.#violation ??= problem.message;
    this.#link.kill();
  }

  async #lastWords(): Promise<void> {
    const stop = whenLate(LAST_WORDS_MS, this.#heard.resolve);
    await this.#heard.promise;
    stop();
  }

  /** From here on it is given nothing more to do, even where it answers before it ends. */
  #doom(): void {
    this.#doomed = true;
    this.#link.kill();
  }

  #cutOff(reason: string): void {
    this.#violation ??= reason;
    this.#frames.clear();
    this.#link.kill();
  }

  async #bury(exit: Exit): Promise<void> {
    if (this.#state.kind === 'running') this.#state.execution.events.drain();
    await this.#outputs.last();
    if (this.#state.kind === 'dead') return;
    const before = this.#state;
    this.#frames.clear();
    this.#outputs.finish();
    this.#leave();
    const lastStderr = before.kind === 'running' ? before.execution.lastStderr : '';
    const death = describeDeath(exit, this.#violation, this.#closing, lastStderr);
    this.#state = { kind: 'dead', death };
    this.#outputs.close();
    this.#hostCalls.close();
    this.#link.control.close();
    const error = new CellaError(death.code, death.message, { details: { ...death } });
    this.#ready.reject(error);
    if (before.kind === 'running') {
      before.execution.fail(death, this.#finished === 0 ? this.notice : undefined);
    } else if (before.kind === 'answering') {
      before.question.reject(error);
    }
    this.#died.resolve(death);
  }

  #leave(): void {
    stopWatching(this);
    this.#outputs.stopWaiting();
    this.#clock?.stop();
    this.#clock = undefined;
    this.#calls.forget();
  }
}

const late = (execution: number | undefined) => (execution === undefined ? {} : { execution });

function sizeOf({ payload }: Frame): number {
  return payload.length + FRAME_COST;
}

function once<T>(next: Waiting, parse: (payload: Buffer) => T): T {
  next.parsed ??= parse(next.frame.payload);
  return next.parsed as T;
}

function parseAnswerValue(payload: Buffer): PyValue {
  const answer = parseAnswer(payload);
  if (!('error' in answer)) return answer.value;
  const { name, message, traceback } = answer.error;
  throw new CellaError('INTROSPECTION_FAILED', `${name}: ${message}`, { details: { traceback } });
}

/** The host's side of one live interpreter: runs one execution or request at a time and checks every frame. */

import { availableParallelism } from 'node:os';
import { settlesWithin } from '../lib/deadline.ts';
import { CellaError } from '../protocol/errors.ts';
import type {
  Death,
  DisplayEvent,
  Notice,
  OutputEvent,
  ProgressEvent,
  ResultEvent,
} from '../protocol/execution-events.ts';
import { ExitCode, FRAME_COST, type Frame, FrameError, FrameType } from '../protocol/kernel-frames.ts';
import { encodeText } from '../protocol/kernel-marshal.ts';
import {
  type HelloPayload,
  parseCall,
  parseDisplay,
  parseFailed,
  parseHello,
  parseResult,
  type ResultPayload,
} from '../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { type CallHandler, HostCalls } from './host-calls.ts';
import { FrameQueue, KernelBudget, parsedOnce, type QueuedFrame } from './kernel-budget.ts';
import { describeDeath, isolationError, type KernelConnection } from './kernel-connection.ts';
import { ExecutionDeadline, type KernelExecution, type SettleResult, type StopReason } from './kernel-execution.ts';
import { KernelOutput, newOutputMarker, type StreamName } from './kernel-output.ts';
import { KernelRequests, type PendingKernelRequest } from './kernel-requests.ts';

/** How long to wait for a kernel that ended before its hello to report why. */
const DRAIN_TIMEOUT_MS = 1000;

/** The assumed memory of one item of a display. */
const ITEM_COST = 64;

/** How the host uses a kernel. */
interface KernelOptions {
  /** Receives what the code outputs while no cell runs. */
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Handles calls of the code other than input(). Without a handler such calls are refused. */
  readonly handler?: CallHandler | undefined;
  /** Attached to the first result. */
  readonly notice?: Notice | undefined;
  /** Counts the kernels of a session, so that an answer for a dead kernel does not reach the next one. */
  readonly generation?: number;
  /**
   * The number of executions that the kernel's memory may know of, including those before it was forked. No text belongs to a
   * later one.
   */
  readonly executions?: () => number;
}

type State =
  | { readonly kind: 'starting' }
  | { readonly kind: 'idle' }
  | { readonly kind: 'running'; readonly execution: KernelExecution }
  | { readonly kind: 'answering'; readonly request: PendingKernelRequest }
  | { readonly kind: 'dead'; readonly death: Death };

export class Kernel {
  readonly #connection: KernelConnection;
  /** Counts the bytes that the host holds for this kernel. */
  readonly budget: KernelBudget;
  /** Sends requests to the kernel while it is idle. */
  readonly requests: KernelRequests;
  readonly #output: KernelOutput;
  readonly #background: KernelOptions['background'];
  readonly #executions: () => number;
  #lastEnded: number | undefined;
  /** Attached to the first result. */
  #notice: Notice | undefined;
  readonly #hostCalls: HostCalls;
  readonly #frames: FrameQueue;
  readonly #ready = Promise.withResolvers<HelloPayload>();
  readonly #died = Promise.withResolvers<Death>();
  #state: State = { kind: 'starting' };
  #deadline: ExecutionDeadline | undefined;
  #finished = 0;
  #violation: string | undefined;
  #closing = false;
  /** A kill was sent; the kernel may not have ended yet. */
  #killRequested = false;
  /** Resolves when the connection has ended. */
  readonly #disconnectedPromise = Promise.withResolvers<void>();

  constructor(
    connection: KernelConnection,
    { background, handler, notice, generation = 0, executions }: KernelOptions,
  ) {
    this.#connection = connection;
    this.budget = new KernelBudget(connection.control);
    this.#executions = executions ?? (() => 0);
    this.#background = background;
    this.#notice = notice;
    // If nothing waits for the kernel, its failure must not become an unhandled rejection.
    this.#ready.promise.catch(() => {});
    // Created first: the output may end as soon as it has a reader.
    this.#frames = new FrameQueue(this.budget, {
      handle: (next) => this.#handle(next),
      violated: (reason) => this.#abortOnViolation(reason),
    });
    this.#output = new KernelOutput(
      connection,
      (name, text, owner) => this.#deliver(name, text, owner),
      () => this.#frames.pump(),
    );
    this.#hostCalls = new HostCalls({
      ...{ connection: connection.control, output: this.#output, budget: this.budget, handler, generation },
      running: () => this.running,
      progress: (event) => this.#progress(event),
      asking: (waits) => (waits ? this.#deadline?.pause() : this.#deadline?.resume()),
      room: () => this.#frames.pump(),
    });
    this.requests = new KernelRequests(connection, {
      checkIdle: () => this.#checkIdle(),
      unanswered: () => this.#requestKill(),
      started: (request) => {
        this.#state = { kind: 'answering', request };
      },
    });
    connection.control.read(
      (frame) => {
        // After a kill, frames that still arrive are ignored.
        if (!this.#killRequested) this.#frames.receive(frame);
      },
      (problem) => this.#disconnected(problem),
    );
    void connection.exited.then(async (exit) => {
      // The reason of a failed start arrives on another connection than the exit, and may arrive later.
      if (this.#state.kind === 'starting' && !this.#closing) {
        await settlesWithin(this.#disconnectedPromise.promise, DRAIN_TIMEOUT_MS);
      }
      await this.#finishExit(exit);
    });
  }

  /** Resolves when the interpreter says hello; rejects if it dies first. */
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

  get running(): KernelExecution | undefined {
    return this.#state.kind === 'running' ? this.#state.execution : undefined;
  }

  /** Answers input() of the code. */
  get inputs(): Pick<HostCalls, 'answerInput' | 'cancelInput'> {
    return this.#hostCalls;
  }

  /** One at a time: throws if another one runs. `settle` runs before the result is final, and can add to it. */
  execute(execution: KernelExecution, settle?: SettleResult): Promise<ResultEvent> {
    this.#checkIdle();
    const payload = encodeText(execution.code);
    const marker = newOutputMarker();
    this.#output.begin(marker);
    this.#state = { kind: 'running', execution };
    this.budget.waitForReader(true);
    execution.start({
      settle,
      budget: this.budget,
      onRoom: () => this.#resumeOutput(),
      onUnread: (events) => this.#hostCalls.refuseUnread(events),
    });
    this.#deadline = new ExecutionDeadline(execution.settings, {
      timeout: () => this.#stop(execution, 'timeout'),
      kill: () => this.#requestKill(),
    });
    this.#connection.control.send(FrameType.execute, execution.number, Buffer.concat([marker, payload]));
    spinBriefly(this, this.#lastEnded === undefined);
    return execution.result;
  }

  /** Sets the notice for the first result. */
  announce(notice: Notice): void {
    this.#notice = notice;
  }

  interrupt(): boolean {
    if (this.#state.kind !== 'running') return false;
    this.#stop(this.#state.execution, 'interrupt');
    return true;
  }

  /** Kills the kernel. A running execution gets a result that says so. */
  async kill(): Promise<void> {
    // A dead kernel must not be killed again: its sandbox may already run another one.
    if (this.#state.kind !== 'dead') this.#requestKill();
    await this.#died.promise;
  }

  /** Ends the kernel and waits until it is gone. */
  async close(): Promise<void> {
    this.#closing = true;
    await this.kill();
  }

  /** Text without an owner belongs to the running execution, or else to the last one. */
  #deliver(type: StreamName, text: string, owner?: number): boolean {
    const stated = owner !== undefined && this.#knows(owner) ? owner : undefined;
    const { running } = this;
    if (running && (stated ?? running.number) === running.number) return running.output(type, text);
    this.#background({ type, text, ...executionPart(stated ?? this.#lastEnded) }, text.length);
    return true;
  }

  #knows(execution: number): boolean {
    return execution > 0 && execution <= this.#executions();
  }

  #resumeOutput(): void {
    this.#output.resume();
    this.#frames.pump();
  }

  #stop(execution: KernelExecution, reason: StopReason): void {
    if (this.running !== execution) return;
    execution.stopped ??= reason;
    this.#connection.interrupt(execution.number);
    this.#deadline?.startGrace();
    // A reader that has stopped reading must not keep the code from stopping.
    execution.events.dropWhenFull();
  }

  /** Returns false if the frame must wait. */
  #handle(next: QueuedFrame): boolean {
    const { frame } = next;
    switch (frame.type) {
      case FrameType.hello:
        return this.#hello(parseHello(frame.payload));
      case FrameType.result:
        return this.#result(frame, parsedOnce(next, parseResult));
      case FrameType.display:
        return this.#display(frame, parsedOnce(next, parseDisplay));
      case FrameType.call:
        return this.#hostCalls.take(frame, parsedOnce(next, parseCall));
      case FrameType.cancel:
        this.#hostCalls.giveUp(frame.id);
        return true;
      case FrameType.answer:
      case FrameType.snapshotTaken:
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
    this.#output.open(hello.tag);
    this.#state = { kind: 'idle' };
    this.#ready.resolve(hello);
    return true;
  }

  #result(frame: Frame, payload: ResultPayload): boolean {
    if (this.#state.kind !== 'running' || this.#state.execution.number !== frame.id) {
      throw new FrameError(`a result for execution ${frame.id} that is not running`);
    }
    const { execution } = this.#state;
    if (!this.#output.reached(payload.markers)) return false;
    // The result arrived before the kill and had to wait. The kernel is ending, so no other cell may start.
    if (this.#killRequested) return true;
    this.#output.finish();
    this.#hostCalls.cellEnded();
    this.#endExecution();
    this.#state = { kind: 'idle' };
    this.#lastEnded = execution.number;
    const notice = this.#finished++ === 0 ? this.#notice : undefined;
    execution.finish(payload, notice);
    return true;
  }

  #progress(event: ProgressEvent): void {
    if (this.#state.kind === 'running') this.#state.execution.progress(event);
    else this.#background(event, event.text.length);
  }

  #display(frame: Frame, payload: ReturnType<typeof parseDisplay>): boolean {
    const event: DisplayEvent = { type: 'display', data: payload.data };
    // Many small items take more memory than their bytes.
    const size = frame.payload.length + FRAME_COST + ITEM_COST * payload.items;
    const { running } = this;
    // The frame comes from a thread or task of an earlier cell. The next cell may already be on its way to the kernel.
    if (frame.id !== running?.number) {
      if (frame.id !== 0 && !this.#knows(frame.id)) throw new FrameError(`a display for execution ${frame.id}`);
      this.#background({ ...event, ...executionPart(frame.id || this.#lastEnded) }, size);
      return true;
    }
    if (!this.#output.reached(payload.markers) || !this.budget.readerHasRoom) return false;
    running.display(event, size, payload.dataCut);
    this.#output.release(payload.markers);
    return true;
  }

  #checkIdle(): void {
    if (this.#state.kind === 'idle') return;
    if (this.#state.kind !== 'dead') throw new CellaError('KERNEL_BUSY', 'The kernel is running code.');
    const { death } = this.#state;
    throw new CellaError(death.code, death.message, { details: { ...death } });
  }

  #answer(frame: Frame): boolean {
    const request = this.#state.kind === 'answering' ? this.#state.request : undefined;
    if (request?.id !== frame.id || request.answer !== frame.type) throw new FrameError('an unexpected answer');
    if (this.#killRequested) return true;
    request.settle(frame.payload);
    this.#state = { kind: 'idle' };
    return true;
  }

  #part(frame: Frame): boolean {
    const request = this.#state.kind === 'answering' ? this.#state.request : undefined;
    if (request?.id !== frame.id) throw new FrameError('an unexpected part of an answer');
    request.part(frame.payload);
    return true;
  }

  /** Handles a failed sandbox setup: the kernel has run no code. */
  #failed(frame: Frame): boolean {
    if (this.#state.kind !== 'starting') throw new FrameError('a failed start of a running kernel');
    const { layer, message } = parseFailed(frame.payload);
    this.#ready.reject(isolationError(layer, message));
    void this.#finishExit({ code: ExitCode.notIsolated, environmentEnded: 'it could not be isolated' });
    return true;
  }

  /** The connection ended. If the process closed it itself, the kernel is unusable. */
  #disconnected(problem?: Error): void {
    this.#disconnectedPromise.resolve();
    if (this.#state.kind === 'dead') return;
    if (problem instanceof FrameError) this.#violation ??= problem.message;
    this.#connection.kill();
  }

  /** From now on the kernel gets no more work, even if it answers before it ends. */
  #requestKill(): void {
    this.#killRequested = true;
    this.#connection.kill();
  }

  #abortOnViolation(reason: string): void {
    this.#violation ??= reason;
    this.#frames.close();
    this.#connection.kill();
  }

  async #finishExit(exit: ProcessExit): Promise<void> {
    if (this.#state.kind === 'running') this.#state.execution.events.dropWhenFull();
    await this.#output.drainRemaining();
    if (this.#state.kind === 'dead') return;
    const before = this.#state;
    this.#frames.close();
    this.#output.finish();
    this.#endExecution();
    const lastStderr = before.kind === 'running' ? before.execution.lastStderr : '';
    const death = describeDeath(exit, this.#violation, this.#closing, lastStderr);
    this.#state = { kind: 'dead', death };
    this.#output.close();
    this.#hostCalls.close();
    this.#connection.control.close();
    const error = new CellaError(death.code, death.message, { details: { ...death } });
    // The kernel could not report why: FAILED did not reach the host.
    const isolated = exit.code !== ExitCode.notIsolated;
    this.#ready.reject(isolated ? error : isolationError('kernel', 'it ended before it could report the reason'));
    if (before.kind === 'running') {
      before.execution.fail(death, this.#finished === 0 ? this.#notice : undefined);
    } else if (before.kind === 'answering') {
      before.request.reject(error);
    }
    this.#died.resolve(death);
  }

  #endExecution(): void {
    stopSpinning(this);
    this.#output.stopWaiting();
    this.#deadline?.stop();
    this.#deadline = undefined;
    this.#hostCalls.forgetInputs();
  }
}

const executionPart = (execution: number | undefined) => (execution === undefined ? {} : { execution });

/** A little longer than the round trip of a small cell. */
const SPIN_MS = 0.4;
/** For the first cell of a kernel, whose memory and processor caches are cold. */
const FIRST_SPIN_MS = 1;
/** With a single processor, spinning would keep the kernel from running. */
const SINGLE_PROCESSOR = availableParallelism() < 2;

const spinningFor = new Map<Kernel, number>();
let awake = false;

/** Keeps the event loop awake briefly after sending a cell: waking a sleeping process takes longer than a small cell. */
function spinBriefly(kernel: Kernel, first: boolean): void {
  if (SINGLE_PROCESSOR) return;
  spinningFor.set(kernel, performance.now() + (first ? FIRST_SPIN_MS : SPIN_MS));
  if (awake) return;
  awake = true;
  setImmediate(spin);
}

/** Call it when the kernel has answered or can no longer answer. */
function stopSpinning(kernel: Kernel): void {
  spinningFor.delete(kernel);
}

/** While an immediate is pending, the loop polls for input without sleeping. */
function spin(): void {
  const now = performance.now();
  for (const [kernel, until] of spinningFor) if (now > until) spinningFor.delete(kernel);
  awake = spinningFor.size > 0;
  if (awake) setImmediate(spin);
}

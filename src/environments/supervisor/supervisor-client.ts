/** A kernel host with a supervisor as its pid 1: the connections to it and to its kernels and programs. */

import type { FrameConnection, KernelConnection } from '../../kernel/kernel-connection.ts';
import { isolationError } from '../../kernel/kernel-connection.ts';
import { settlesWithin } from '../../lib/deadline.ts';
import { signalName } from '../../lib/process-end.ts';
import { asError } from '../../lib/values.ts';
import { ALL_CAPABILITIES } from '../../protocol/enums.ts';
import { ExitCode, type Frame, FrameType } from '../../protocol/kernel-frames.ts';
import {
  encodeHostPayload,
  type HostPayload,
  type MeasuredPayload,
  type ProgramSpec,
  parseDied,
  parseFailed,
  parseMeasured,
  parseOpened,
  parseSnapshotLost,
} from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import type { TerminalSize } from '../../protocol/workspace-models.ts';
import type {
  ByteSink,
  KernelHostListener,
  KillOptions,
  MemoryUsage,
  RunningProgram,
  RunningTerminal,
  StartKernelOptions,
} from '../kernel-host.ts';
import type { PrestartableHost } from './spare-pool.ts';
import type { FrameSocket } from './supervisor-transport.ts';
import {
  type ConnectRequest,
  closeConnection,
  type ProcessConnection,
  type SupervisorTransport,
} from './supervisor-transport.ts';

/** Start options for a kernel without its own settings. */
const NO_OPTIONS = encodeHostPayload('start', { env: {}, reseed: false });

/** How long close() waits for the environment to end. */
const CLOSE_TIMEOUT_MS = 10_000;

/** How long a caller waits for the memory figures of an environment. */
const MEASURE_TIMEOUT_MS = 5000;
const NOTHING_MEASURED: MeasuredPayload = { kernels: {}, snapshots: {}, stopped: [] };

const DRAIN_TIMEOUT_MS = 5000;

interface NumberedConnection extends ProcessConnection {
  readonly kernel: number;
  /** A short program may end before its connection is open. */
  readonly exit: PromiseWithResolvers<ProcessExit>;
}

export class SupervisorClient implements PrestartableHost {
  readonly capabilities = ALL_CAPABILITIES;
  #listener: KernelHostListener | undefined;
  readonly #transport: SupervisorTransport;
  readonly #supervisor: FrameSocket;
  readonly #opened = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #exits = new Map<number, PromiseWithResolvers<ProcessExit>>();
  readonly #measurements: PromiseWithResolvers<MeasuredPayload>[] = [];
  #pid = 0;
  #kernels = 0;
  #connected = true;
  #closing = false;
  #failure: Error | undefined;
  #exitReason: ProcessExit | undefined;
  #prestarted: NumberedConnection | undefined;
  #prestartUsed = false;

  constructor(transport: SupervisorTransport) {
    this.#transport = transport;
    if (transport.proxy) transport.proxy.onDenied = (attempt) => this.#listener?.networkDenied(attempt);
    this.#opened.promise.catch(() => {}); // callers that wait get the rejection
    this.#supervisor = transport.supervisor;
    this.#supervisor.read(
      (frame) => {
        try {
          this.#receive(frame);
        } catch (problem) {
          // Pid 1 violated the protocol: give up the whole environment.
          this.#supervisor.close();
          this.#disconnected(asError(problem));
        }
      },
      (problem) => this.#disconnected(problem),
    );
  }

  listen(listener: KernelHostListener): void {
    this.#listener = listener;
  }

  get pid(): number {
    return this.#pid;
  }

  /** Still true if the connection has ended but the exits of kernels and programs are not reported yet. */
  get alive(): boolean {
    return (
      this.#connected || (this.#exitReason === undefined && this.#prestarted === undefined && this.#exits.size > 0)
    );
  }

  /** Why the sandbox could not be set up, if it could not. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Starts the first kernel in advance and waits for its hello. This makes the host a spare. */
  async prestart(): Promise<void> {
    this.#prestarted = await this.#connect({ spare: true });
    const { firstFrame } = this.#prestarted.control;
    closeIfPaused(firstFrame, this.#pid, this.#transport.pauseCheck, () => void this.#end());
    // The connection of a kernel that cannot be killed stays open.
    await Promise.race([firstFrame, this.#ended.promise]);
    if (this.#connected) return;
    closeConnection(this.#prestarted);
    throw this.#failure ?? isolationError('template', 'the sandbox ended at once');
  }

  /** Wakes the kernel that was started in advance, on another processor than this one. */
  wake(processor: number): void {
    this.#prestartUsed = this.#prestarted !== undefined;
    this.#prestarted?.control.send(FrameType.start, processor + 1, NO_OPTIONS);
  }

  startKernel({ env, from, packages, reseed = !from }: StartKernelOptions): Promise<KernelConnection> {
    const prestarted = this.#prestarted;
    if (prestarted && !from) {
      this.#prestarted = undefined;
      // The kernel has seeded itself. If it is awake and has no options, nothing needs to be sent.
      const nothing = this.#prestartUsed && Object.keys(env).length === 0 && packages === undefined;
      return Promise.resolve(this.#startedKernel(prestarted, nothing ? undefined : { env, packages, reseed: false }));
    }
    return this.#connect({ from }).then((attachment) => this.#startedKernel(attachment, { env, packages, reseed }));
  }

  async exec(program: ProgramSpec): Promise<RunningProgram> {
    const { kernel, control, stdout, stderr, exited } = await this.#startProgram({ command: program });
    const stdin = program.stdin === undefined ? undefined : stdinOver(control);
    return { stdin, stdout, stderr, exited, kill: (options) => this.#killProgram(kernel, options) };
  }

  async openTerminal(program: ProgramSpec, size: TerminalSize): Promise<RunningTerminal> {
    const request = { command: { ...program, terminal: size } };
    const { kernel, control, stdout, stderr, exited } = await this.#startProgram(request);
    // A terminal has one stream.
    stderr.close();
    return {
      output: stdout,
      exited,
      kill: () => this.#kill(kernel),
      write: (bytes) => control.sendAndDrain(FrameType.typed, 0, bytes),
      resize: (to) => control.send(FrameType.resize, 0, encodeHostPayload('resize', to)),
    };
  }

  async #startProgram(request: ConnectRequest): Promise<Pick<RunningProgram, 'exited'> & NumberedConnection> {
    const attachment = await this.#connect(request);
    const { kernel, control, exit } = attachment;
    let problem: string | undefined;
    const closed = Promise.withResolvers<void>();
    control.read(
      (frame) => {
        if (frame.type !== FrameType.failed) return;
        problem = parseFailed(frame.payload).message;
        // Pid 1 reports no exit for a program that it could not fork.
        exit.resolve({ code: ExitCode.notStarted });
        this.#exits.delete(kernel);
      },
      () => closed.resolve(),
    );
    const exited = exit.promise.then(async (how) => {
      // The reason of a failed start arrives on another connection than the exit, and may arrive later.
      if (how.code === ExitCode.notStarted && problem === undefined) {
        await settlesWithin(closed.promise, DRAIN_TIMEOUT_MS);
      }
      control.close();
      return { ...how, problem };
    });
    return { ...attachment, exited };
  }

  #startedKernel(
    { kernel, control, stdout, stderr, exit }: NumberedConnection,
    start?: HostPayload<'start'>,
  ): KernelConnection {
    if (start) control.send(FrameType.start, 0, encodeHostPayload('start', start));
    return {
      control,
      stdout,
      stderr,
      exited: exit.promise,
      interrupt: (execution) =>
        this.#supervisor.send(FrameType.interrupt, kernel, encodeHostPayload('interrupt', { execution })),
      kill: () => this.#kill(kernel),
      isPaused: () => this.#isPaused(kernel),
    };
  }

  #killProgram(command: number, { graceMs = 0 }: KillOptions = {}): void {
    const exit = this.#exits.get(command);
    const cut = () => this.#kill(command);
    if (graceMs <= 0 || !exit) {
      cut();
      return;
    }
    this.#supervisor.send(FrameType.kill, command, encodeHostPayload('kill', { gently: true }));
    const timer = setTimeout(cut, graceMs);
    void exit.promise.then(() => clearTimeout(timer));
  }

  #kill(kernel: number): void {
    this.#supervisor.send(FrameType.kill, kernel);
    const exit = this.#exits.get(kernel);
    // If pid 1 is paused from outside, it cannot kill a single process.
    if (exit) closeIfPaused(exit.promise, this.#pid, this.#transport.pauseCheck, () => void this.#end());
  }

  async #end(): Promise<void> {
    await this.#transport.kill(this.#pid);
    this.#supervisor.close();
  }

  dropSnapshot(snapshot: number): void {
    this.#supervisor.send(FrameType.dropSnapshot, snapshot);
  }

  memoryUsage(): Promise<MemoryUsage> {
    return this.#measure();
  }

  #measure(): Promise<MeasuredPayload> {
    const asked = Promise.withResolvers<MeasuredPayload>();
    if (this.#connected) {
      this.#measurements.push(asked);
      this.#supervisor.send(FrameType.measure, 0);
      // A later answer still counts for this request, not for the next one.
      const timer = setTimeout(() => asked.resolve(NOTHING_MEASURED), MEASURE_TIMEOUT_MS);
      void asked.promise.then(() => clearTimeout(timer));
    } else asked.resolve(NOTHING_MEASURED);
    return asked.promise;
  }

  /** Whether the kernel is paused, alone or with its whole environment. */
  async #isPaused(kernel: number): Promise<boolean> {
    if (await this.#transport.pauseCheck.isPaused(this.#pid)) return true;
    return (await this.#measure()).stopped.includes(kernel);
  }

  async close(): Promise<void> {
    this.#closing = true;
    // No session has taken the kernel that was started in advance, so its connection is closed here.
    if (this.#prestarted) closeConnection(this.#prestarted);
    // Closes the sending half. The other half ends with pid 1 and everything in the environment.
    this.#supervisor.finish();
    void this.#transport.close();
    const timer = setTimeout(() => void this.#end(), CLOSE_TIMEOUT_MS);
    closeIfPaused(this.#ended.promise, this.#pid, this.#transport.pauseCheck, () => void this.#end());
    await this.#ended.promise;
    clearTimeout(timer);
  }

  async #connect(request: ConnectRequest): Promise<NumberedConnection> {
    try {
      await this.#transport.awaitAnswer(this.#opened.promise);
    } catch (error) {
      this.#killIfUnusable();
      throw error;
    }
    if (!this.#connected) throw isolationError('template', 'the sandbox has ended');
    const kernel = ++this.#kernels;
    // Registered first: the kernel may die before it is connected.
    const ended = new AbortController();
    const exit = this.#exit(kernel);
    void exit.promise.then(() => ended.abort());
    try {
      return { kernel, exit, ...(await this.#transport.connect(kernel, request, ended.signal)) };
    } catch (error) {
      this.#exits.delete(kernel);
      this.#killIfUnusable();
      throw this.#failure ?? error;
    }
  }

  /** Kills the environment if it can never start a kernel again and has none. */
  #killIfUnusable(): void {
    if (this.#transport.unusable && this.#exits.size === 0) void this.#end();
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case FrameType.opened:
        this.#pid = this.#transport.pid ?? parseOpened(frame.payload).pid;
        this.#opened.resolve();
        break;
      case FrameType.failed: {
        const { layer, message } = parseFailed(frame.payload);
        this.#failure = isolationError(layer, message);
        this.#opened.reject(this.#failure);
        this.#supervisor.close(); // the other side waits for that
        break;
      }
      case FrameType.died: {
        const died = parseDied(frame.payload);
        this.#exit(frame.id).resolve('code' in died ? died : { ...died, signal: signalName(died.signal) });
        this.#exits.delete(frame.id);
        break;
      }
      case FrameType.snapshotLost:
        this.#listener?.snapshotLost(frame.id, parseSnapshotLost(frame.payload).outOfMemory);
        break;
      case FrameType.measured:
        this.#measurements.shift()?.resolve(parseMeasured(frame.payload));
        break;
      default:
        break; // a template of another version: ignore message types that this version does not know
    }
  }

  #exit(kernel: number): PromiseWithResolvers<ProcessExit> {
    const known = this.#exits.get(kernel) ?? Promise.withResolvers<ProcessExit>();
    if (this.#exitReason) known.resolve(this.#exitReason);
    else this.#exits.set(kernel, known);
    return known;
  }

  #disconnected(problem?: Error): void {
    if (!this.#connected) return;
    this.#connected = false;
    this.#opened.reject(this.#failure ?? isolationError('template', problem?.message ?? 'its connection was closed'));
    for (const asked of this.#measurements.splice(0)) asked.resolve(NOTHING_MEASURED);
    void this.#finishExit(problem);
  }

  async #finishExit(problem: Error | undefined): Promise<void> {
    const closed: ProcessExit = { signal: 'SIGKILL', environmentEnded: 'its session was closed' };
    const reason = this.#closing ? closed : await this.#transport.exitReason(problem);
    this.#exitReason = reason;
    for (const exit of this.#exits.values()) exit.resolve(reason);
    this.#exits.clear();
    await this.#transport.close();
    this.#ended.resolve();
  }
}

/** The supervisor buffers one frame at a time. */
const FRAME_BYTES = 65_536;

function stdinOver(control: FrameConnection): ByteSink {
  // Writes run one after the other, then the end, even if callers do not wait for them.
  let last = Promise.resolve();
  const feed = async (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length; at += FRAME_BYTES) {
      await control.sendAndDrain(FrameType.typed, 0, bytes.subarray(at, at + FRAME_BYTES));
    }
  };
  return {
    write: (bytes) => {
      last = last.then(() => feed(bytes));
      return last;
    },
    end: () => {
      void last.then(() => control.send(FrameType.ended, 0));
    },
  };
}

/** If a killed kernel still exists after this time, the whole environment is killed. Longer than pid 1 gives any program. */
const KILL_TIMEOUT_MS = 20_000;

export interface PauseCheck {
  /** How long after a kill to check whether the process is paused. */
  readonly checkAfterMs: number;
  /** Whether all processes are paused. `pid` is that of pid 1 on the host. Never rejects. */
  isPaused(pid: number): Promise<boolean>;
}

/** Calls `end` if a killed process does not end: as soon as it is found to be paused, otherwise after a timeout. */
export function closeIfPaused(
  exited: Promise<unknown>,
  pid: number,
  { checkAfterMs, isPaused }: PauseCheck,
  end: () => void,
): void {
  const began = performance.now();
  let over = false;
  let timer: NodeJS.Timeout;
  const wait = (): void => {
    timer = setTimeout(async () => {
      const stuck = performance.now() - began >= KILL_TIMEOUT_MS || (await isPaused(pid));
      if (over) return;
      if (stuck) end();
      else wait();
    }, checkAfterMs);
  };
  wait();
  void exited.then(() => {
    over = true;
    clearTimeout(timer);
  });
}

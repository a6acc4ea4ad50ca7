/** One closed place with a pid 1 of ours: its connection, and those of the kernels that live in it. */

import { setTimeout as delay } from 'node:timers/promises';
import type { KernelConnection, ProcessExit } from '../kernel/kernel-connection.ts';
import { type Frame, FrameType } from '../protocol/frames.ts';
import { parseDied, parseFailed, parseGone, parseMeasured, parseOpened } from '../protocol/kernel.ts';
import { refusal } from '../protocol/refusal.ts';
import type { TerminalSize } from '../protocol/terminal.ts';
import type { DeniedAttempt } from '../sandbox/proxy/allow-list.ts';
import type { CommandLink, KillOptions, LaunchOptions, Program, TerminalLink, Usage } from './contract.ts';
import { endWhereHeld } from './held-still.ts';
import { inputOver } from './input.ts';
import { signalName } from './signals.ts';
import type { FrameSocket } from './sockets.ts';
import type { Preparable } from './spares.ts';
import { type Connection, closeConnection, type Purpose, type Way } from './way.ts';

/** What differs between kernels of one policy, where nothing does. */
const NOTHING = JSON.stringify({ env: {}, reseed: false });

/** An enclosure that has been told to end is waited for this long. */
const LONGEST_END_MS = 10_000;

/** Figures that come later than this are of no use to who asked for them. */
const LONGEST_MEASURE_MS = 5000;

/** How a program ends that could not be started, and some that could. */
const NEVER_BEGAN = 127;
const LAST_WORDS_MS = 5000;

/** What a kernel is told before its first cell. */
interface StartSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly packages: string | undefined;
  readonly reseed: boolean;
}

interface Attachment extends Connection {
  readonly kernel: number;
  /** What is short may have ended before anybody is connected to it. */
  readonly exit: PromiseWithResolvers<ProcessExit>;
}

export class SupervisedEnclosure implements Preparable {
  onGone: (twin: number, outOfMemory: boolean) => void = () => {};
  onDenied: (attempt: DeniedAttempt) => void = () => {};
  readonly #way: Way;
  readonly #supervisor: FrameSocket;
  readonly #opened = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #exits = new Map<number, PromiseWithResolvers<ProcessExit>>();
  readonly #measuring: PromiseWithResolvers<Usage>[] = [];
  #pid = 0;
  #kernels = 0;
  #connected = true;
  #closing = false;
  #failure: Error | undefined;
  #fate: ProcessExit | undefined;
  #prepared: Attachment | undefined;
  #woken = false;

  constructor(way: Way) {
    this.#way = way;
    if (way.proxy) way.proxy.onDenied = (attempt) => this.onDenied(attempt);
    this.#opened.promise.catch(() => {}); // told by whoever waits
    this.#supervisor = way.supervisor;
    this.#supervisor.read(
      (frame) => {
        try {
          this.#receive(frame);
        } catch (problem) {
          // Pid 1 does not keep to the protocol: it is let go of, and everything around it with it.
          this.#supervisor.close();
          this.#lost(problem instanceof Error ? problem : new Error(String(problem)));
        }
      },
      (problem) => this.#lost(problem),
    );
  }

  get pid(): number {
    return this.#pid;
  }

  /** Where its end is known, but not yet how it came, those who live here have not been told. */
  get alive(): boolean {
    return this.#connected || (this.#fate === undefined && this.#prepared === undefined && this.#exits.size > 0);
  }

  /** The reason why the enclosure could not be closed, if it could not. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Starts the first kernel ahead of time, and waits until it has said hello; what makes it a spare. */
  async prepare(): Promise<void> {
    this.#prepared = await this.#attach({ spare: true });
    const { spoken } = this.#prepared.control;
    endWhereHeld(spoken, this.#pid, this.#way.stillness, () => void this.#end());
    // If nothing can end it, its connection stays open.
    await Promise.race([spoken, this.#gone.promise]);
    if (this.#connected) return;
    closeConnection(this.#prepared);
    throw this.#failure ?? refusal('template', 'the sandbox ended at once');
  }

  /** Has the kernel that was prepared wake up, on another processor than this. */
  wake(processor: number): void {
    this.#woken = this.#prepared !== undefined;
    this.#prepared?.control.send(FrameType.start, processor + 1, NOTHING);
  }

  launch({ env, from, packages, reseed = !from }: LaunchOptions): Promise<KernelConnection> {
    const prepared = this.#prepared;
    if (prepared && !from) {
      this.#prepared = undefined;
      // It has seeded itself; where it was woken up already, and there is nothing to tell, nothing is sent.
      const nothing = this.#woken && Object.keys(env).length === 0 && packages === undefined;
      return Promise.resolve(this.#start(prepared, nothing ? undefined : { env, packages, reseed: false }));
    }
    return this.#attach({ from }).then((attachment) => this.#start(attachment, { env, packages, reseed }));
  }

  async command(program: Program): Promise<CommandLink> {
    const { kernel, control, stdout, stderr, exited } = await this.#run({ command: program });
    const stdin = program.stdin === undefined ? undefined : inputOver(control);
    return { stdin, stdout, stderr, exited, kill: (options) => this.#stop(kernel, options) };
  }

  async terminal(program: Program, size: TerminalSize): Promise<TerminalLink> {
    const purpose = { command: { ...program, terminal: size } };
    const { kernel, control, stdout, stderr, exited } = await this.#run(purpose);
    // A terminal has one stream.
    stderr.close();
    return {
      output: stdout,
      exited,
      kill: () => this.#kill(kernel),
      type: (bytes) => control.sendAndDrain(FrameType.typed, 0, bytes),
      resize: ({ cols, rows }) => control.send(FrameType.resize, 0, JSON.stringify({ cols, rows })),
    };
  }

  async #run(purpose: Purpose): Promise<Pick<CommandLink, 'exited'> & Attachment> {
    const attachment = await this.#attach(purpose);
    const { kernel, control, exit } = attachment;
    let problem: string | undefined;
    const heard = Promise.withResolvers<void>();
    control.read(
      (frame) => {
        if (frame.type !== FrameType.failed) return;
        problem = parseFailed(frame.payload).message;
        // Pid 1 says no more of what it could not even fork.
        exit.resolve({ outOfMemory: false, exitCode: NEVER_BEGAN });
        this.#exits.delete(kernel);
      },
      () => heard.resolve(),
    );
    const exited = exit.promise.then(async (how) => {
      // Why it never began is said on another connection than that it has ended, and may come after it.
      if (how.exitCode === NEVER_BEGAN && problem === undefined) {
        await Promise.race([heard.promise, delay(LAST_WORDS_MS, undefined, { ref: false })]);
      }
      control.close();
      return { ...how, ...(problem === undefined ? {} : { problem }) };
    });
    return { ...attachment, exited };
  }

  #start({ kernel, control, stdout, stderr, exit }: Attachment, settings?: StartSettings): KernelConnection {
    if (settings) control.send(FrameType.start, 0, JSON.stringify(settings));
    return {
      control,
      stdout,
      stderr,
      exited: exit.promise,
      interrupt: (execution) => this.#supervisor.send(FrameType.interrupt, kernel, JSON.stringify({ execution })),
      kill: () => this.#kill(kernel),
      isPaused: () => this.#way.stillness.heldStill(this.#pid),
    };
  }

  #stop(command: number, { graceMs = 0 }: KillOptions = {}): void {
    const exit = this.#exits.get(command);
    const cut = () => this.#kill(command);
    if (graceMs <= 0 || !exit) {
      cut();
      return;
    }
    this.#supervisor.send(FrameType.kill, command, JSON.stringify({ gently: true }));
    const timer = setTimeout(cut, graceMs);
    void exit.promise.then(() => clearTimeout(timer));
  }

  #kill(kernel: number): void {
    this.#supervisor.send(FrameType.kill, kernel);
    const exit = this.#exits.get(kernel);
    // If pid 1 is held still from outside, nothing in there can be killed alone.
    if (exit) endWhereHeld(exit.promise, this.#pid, this.#way.stillness, () => void this.#end());
  }

  async #end(): Promise<void> {
    await this.#way.kill(this.#pid);
    this.#supervisor.close();
  }

  drop(twin: number): void {
    this.#supervisor.send(FrameType.drop, twin);
  }

  measure(): Promise<Usage> {
    const asked = Promise.withResolvers<Usage>();
    if (this.#connected) {
      this.#measuring.push(asked);
      this.#supervisor.send(FrameType.measure, 0);
      // An answer that comes later is still taken for this question, and not for the next.
      const timer = setTimeout(() => asked.resolve({ kernels: {}, twins: {} }), LONGEST_MEASURE_MS);
      void asked.promise.then(() => clearTimeout(timer));
    } else asked.resolve({ kernels: {}, twins: {} });
    return asked.promise;
  }

  async close(): Promise<void> {
    this.#closing = true;
    // A kernel that was prepared for nobody has nobody else to close its connections.
    if (this.#prepared) closeConnection(this.#prepared);
    // Half of the connection: the other half ends with pid 1, and everything around it.
    this.#supervisor.finish();
    void this.#way.release();
    const timer = setTimeout(() => void this.#end(), LONGEST_END_MS);
    endWhereHeld(this.#gone.promise, this.#pid, this.#way.stillness, () => void this.#end());
    await this.#gone.promise;
    clearTimeout(timer);
  }

  async #attach(purpose: Purpose): Promise<Attachment> {
    try {
      await this.#way.answered(this.#opened.promise);
    } catch (error) {
      this.#abandon();
      throw error;
    }
    if (!this.#connected) throw refusal('template', 'the sandbox has ended');
    const kernel = ++this.#kernels;
    // From here on: the kernel may die before anybody asks for it.
    const ended = new AbortController();
    const exit = this.#exit(kernel);
    void exit.promise.then(() => ended.abort());
    try {
      return { kernel, exit, ...(await this.#way.attach(kernel, purpose, ended.signal)) };
    } catch (error) {
      this.#exits.delete(kernel);
      this.#abandon();
      throw this.#failure ?? error;
    }
  }

  /** Ends it if no kernel can ever be made here again and none lives here. */
  #abandon(): void {
    if (this.#way.abandoned && this.#exits.size === 0) void this.#end();
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case FrameType.opened:
        this.#pid = this.#way.pid ?? parseOpened(frame.payload).pid;
        this.#opened.resolve();
        break;
      case FrameType.failed: {
        const { layer, message } = parseFailed(frame.payload);
        this.#failure = refusal(layer, message);
        this.#opened.reject(this.#failure);
        this.#supervisor.close(); // the other side waits for that
        break;
      }
      case FrameType.died: {
        const { signal, exitCode, outOfMemory } = parseDied(frame.payload);
        this.#exit(frame.id).resolve({
          outOfMemory,
          ...(signal === undefined ? {} : { signal: signalName(signal) }),
          ...(exitCode === undefined ? {} : { exitCode }),
        });
        this.#exits.delete(frame.id);
        break;
      }
      case FrameType.gone:
        this.onGone(frame.id, parseGone(frame.payload).outOfMemory);
        break;
      case FrameType.measured:
        this.#measuring.shift()?.resolve(parseMeasured(frame.payload));
        break;
      default:
        break; // a template of another version: what it says beside this is not needed
    }
  }

  #exit(kernel: number): PromiseWithResolvers<ProcessExit> {
    const known = this.#exits.get(kernel) ?? Promise.withResolvers<ProcessExit>();
    if (this.#fate) known.resolve(this.#fate);
    else this.#exits.set(kernel, known);
    return known;
  }

  #lost(problem?: Error): void {
    if (!this.#connected) return;
    this.#connected = false;
    this.#opened.reject(this.#failure ?? refusal('template', problem?.message ?? 'its connection was closed'));
    for (const asked of this.#measuring.splice(0)) asked.resolve({ kernels: {}, twins: {} });
    void this.#settle(problem);
  }

  async #settle(problem: Error | undefined): Promise<void> {
    const closed: ProcessExit = { outOfMemory: false, lost: 'its session was closed', signal: 'SIGKILL' };
    const fate = this.#closing ? closed : await this.#way.fate(problem);
    this.#fate = fate;
    for (const exit of this.#exits.values()) exit.resolve(fate);
    this.#exits.clear();
    await this.#way.release();
    this.#gone.resolve();
  }
}

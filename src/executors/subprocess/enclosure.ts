/** One sandbox made by a template: its pid 1, and the connections of the kernels that live in it. */

import { randomUUID } from 'node:crypto';
import type { Exit, KernelLink } from '../../kernel/link.ts';
import { type Frame, FrameType } from '../../protocol/frames.ts';
import {
  fromKernel,
  fromSupervisor,
  parseAttached,
  parseDied,
  parseFailed,
  parseGone,
  parseMeasured,
  parseOpened,
} from '../../protocol/kernel.ts';
import { refusal } from '../../protocol/refusal.ts';
import type { LaunchSpec } from '../../sandbox/spec.ts';
import type { CommandLink, LaunchOptions, Program, Usage } from '../contract.ts';
import type { Preparable } from '../spares.ts';
import { signalName } from './signals.ts';
import { FrameSocket, PipeSource } from './socket.ts';
import type { Template } from './template.ts';

/** What differs between kernels of one policy, where nothing does. */
const NOTHING = JSON.stringify({ env: {}, reseed: false });

/** A sandbox that has been told to end is waited for this long. */
const LONGEST_END_MS = 2000;

/** What a kernel is told before its first cell. */
interface StartSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly packages: string | undefined;
  readonly reseed: boolean;
}

/** What a connection is for, where it is not for a kernel that begins empty. */
interface Purpose {
  readonly from?: LaunchOptions['from'];
  readonly spare?: boolean;
  readonly command?: Program;
}

interface Attachment {
  readonly kernel: number;
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
}

export class SubprocessEnclosure implements Preparable {
  onGone: (twin: number, outOfMemory: boolean) => void = () => {};
  readonly #template: Template;
  readonly #id = randomUUID();
  readonly #supervisor: FrameSocket;
  readonly #opened = Promise.withResolvers<number>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #exits = new Map<number, PromiseWithResolvers<Exit>>();
  readonly #measuring: PromiseWithResolvers<Usage>[] = [];
  #pid = 0;
  #kernels = 0;
  #alive = true;
  #closing = false;
  #failure: Error | undefined;
  #prepared: Attachment | undefined;
  #woken = false;

  constructor(template: Template, policy: LaunchSpec) {
    this.#template = template;
    this.#opened.promise.catch(() => {}); // told by whoever waits
    this.#supervisor = new FrameSocket(template.path, fromSupervisor);
    this.#supervisor.send(FrameType.open, 0, JSON.stringify({ id: this.#id, policy }));
    this.#supervisor.read(
      (frame) => {
        try {
          this.#receive(frame);
        } catch (problem) {
          // Pid 1 does not keep to the protocol: it is let go of, and everything in its sandbox with it.
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

  get alive(): boolean {
    return this.#alive;
  }

  /** The reason why the sandbox could not be closed, if it could not. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Starts the first kernel ahead of time, and waits until it has said hello; what makes it a spare. */
  async prepare(): Promise<void> {
    this.#prepared = await this.#attach({ spare: true });
    await this.#prepared.control.spoken;
    if (!this.#alive) throw this.#failure ?? refusal('template', 'the sandbox ended at once');
  }

  /** Has the kernel that was prepared wake up. */
  wake(): void {
    this.#woken = this.#prepared !== undefined;
    this.#prepared?.control.send(FrameType.start, 0, NOTHING);
  }

  launch({ env, from, packages, reseed = !from }: LaunchOptions): Promise<KernelLink> {
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
    const { kernel, control, stdout, stderr } = await this.#attach({ command: program });
    let problem: string | undefined;
    control.read(
      (frame) => {
        if (frame.type === FrameType.failed) problem = parseFailed(frame.payload).message;
      },
      () => {},
    );
    const exited = this.#exit(kernel).promise.then((exit) => {
      control.close();
      return { ...exit, ...(problem === undefined ? {} : { problem }) };
    });
    if (!this.#alive) this.#bury();
    return { stdout, stderr, exited, kill: () => this.#supervisor.send(FrameType.kill, kernel) };
  }

  #start({ kernel, control, stdout, stderr }: Attachment, settings?: StartSettings): KernelLink {
    if (settings) control.send(FrameType.start, 0, JSON.stringify(settings));
    const exited = this.#exit(kernel).promise;
    if (!this.#alive) this.#bury();
    return {
      control,
      stdout,
      stderr,
      exited,
      interrupt: (execution) => this.#supervisor.send(FrameType.interrupt, kernel, JSON.stringify({ execution })),
      kill: () => this.#supervisor.send(FrameType.kill, kernel),
    };
  }

  drop(twin: number): void {
    this.#supervisor.send(FrameType.drop, twin);
  }

  measure(): Promise<Usage> {
    const asked = Promise.withResolvers<Usage>();
    if (this.#alive) {
      this.#measuring.push(asked);
      this.#supervisor.send(FrameType.measure, 0);
    } else asked.resolve({ kernels: {}, twins: {} });
    return asked.promise;
  }

  async close(): Promise<void> {
    this.#closing = true;
    // A kernel that was prepared for nobody has nobody else to close its connections.
    if (this.#prepared) closeAttachment(this.#prepared);
    // Half of the connection: the other half ends with pid 1, and everything in its sandbox.
    this.#supervisor.finish();
    const timer = setTimeout(() => this.#supervisor.close(), LONGEST_END_MS);
    await this.#gone.promise;
    clearTimeout(timer);
  }

  async #attach({ from, spare = false, command }: Purpose): Promise<Attachment> {
    await this.#opened.promise;
    const id = randomUUID();
    const kernel = ++this.#kernels;
    // From here on: the kernel may die before anybody asks for it.
    this.#exit(kernel);
    const control = new FrameSocket(this.#template.path, fromKernel);
    const place = { twin: from?.twin ?? null, keep: from?.keep ?? false, spare, ...(command ? { command } : {}) };
    const request = { id, sandbox: this.#id, kernel, ...place };
    control.send(FrameType.attach, 0, JSON.stringify(request));
    const pipes: PipeSource[] = [];
    try {
      const paths = parseAttached(await this.#first(control));
      for (const path of [paths.out, paths.err]) pipes.push(new PipeSource(path));
      const [stdout, stderr] = pipes as [PipeSource, PipeSource];
      return { kernel, control, stdout, stderr };
    } catch (cause) {
      control.close();
      for (const pipe of pipes) pipe.close();
      this.#exits.delete(kernel);
      const reason = cause instanceof Error ? cause : new Error(String(cause));
      throw (
        this.#failure ?? ('code' in reason && reason.code === 'ENOENT' ? refusal('template', reason.message) : reason)
      );
    } finally {
      this.#template.opened(id);
    }
  }

  /** The template's answer to a connection. What comes right behind it is the kernel's. */
  #first(control: FrameSocket): Promise<Buffer> {
    return new Promise<Buffer>((resolve, reject) => {
      control.read(
        (frame) => {
          control.unread();
          if (frame.type === FrameType.attached) resolve(frame.payload);
          else if (frame.type === FrameType.failed) reject(asError(frame));
          else reject(refusal('template', 'it answered with something else'));
        },
        () => reject(refusal('template', 'the template closed the connection')),
      );
    });
  }

  #receive(frame: Frame): void {
    switch (frame.type) {
      case FrameType.opened:
        this.#pid = parseOpened(frame.payload).pid;
        this.#opened.resolve(this.#pid);
        break;
      case FrameType.failed:
        this.#failure = asError(frame);
        this.#opened.reject(this.#failure);
        this.#supervisor.close(); // the other side waits for that
        break;
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

  #exit(kernel: number): PromiseWithResolvers<Exit> {
    const known = this.#exits.get(kernel) ?? Promise.withResolvers<Exit>();
    this.#exits.set(kernel, known);
    return known;
  }

  #lost(problem?: Error): void {
    this.#alive = false;
    if (problem && 'code' in problem && (problem.code === 'ECONNREFUSED' || problem.code === 'ENOENT'))
      this.#template.lost();
    this.#opened.reject(this.#failure ?? refusal('template', problem?.message ?? 'the template closed the connection'));
    this.#bury();
    for (const asked of this.#measuring.splice(0)) asked.resolve({ kernels: {}, twins: {} });
    this.#gone.resolve();
  }

  #bury(): void {
    const lost = this.#closing ? 'its session was closed' : 'the sandbox it lived in has ended';
    for (const exit of this.#exits.values()) {
      exit.resolve({ outOfMemory: false, lost, ...(this.#closing ? { signal: 'SIGKILL' } : {}) });
    }
    this.#exits.clear();
  }
}

function closeAttachment({ control, stdout, stderr }: Attachment): void {
  control.close();
  stdout.close();
  stderr.close();
}

function asError(frame: Frame): Error {
  const { layer, message } = parseFailed(frame.payload);
  return refusal(layer, message);
}

/** One sandbox made by a template: its pid 1, and the connections of the kernels that live in it. */

import { randomUUID } from 'node:crypto';
import { constants as os } from 'node:os';
import type { Exit, KernelLink } from '../../kernel/link.ts';
import { type Frame, FrameType } from '../../protocol/frames.ts';
import {
  fromKernel,
  fromSupervisor,
  parseAttached,
  parseDied,
  parseFailed,
  parseOpened,
} from '../../protocol/kernel.ts';
import type { LaunchSpec } from '../../sandbox/spec.ts';
import type { Enclosure } from '../contract.ts';
import { FrameSocket, PipeSource } from './socket.ts';
import { refusal, type Template } from './template.ts';

interface Attachment {
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
  readonly exited: Promise<Exit>;
}

/** Where a number has two names, the first is the one that people know: SIGABRT, not SIGIOT. */
const signalNames = new Map(
  Object.entries(os.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

export class SubprocessEnclosure implements Enclosure {
  readonly #template: Template;
  readonly #id = randomUUID();
  readonly #supervisor: FrameSocket;
  readonly #opened = Promise.withResolvers<number>();
  readonly #gone = Promise.withResolvers<void>();
  #pid = 0;
  #policy = '';
  #alive = true;
  #closing = false;
  #failure: Error | undefined;
  #ready: Promise<Attachment> | undefined;
  #exited: PromiseWithResolvers<Exit> | undefined;

  /** Begins a sandbox. What differs between sessions comes with `start`. */
  constructor(template: Template, network: LaunchSpec['network']) {
    this.#template = template;
    this.#opened.promise.catch(() => {}); // told by whoever waits
    this.#supervisor = new FrameSocket(template.path, fromSupervisor);
    this.#supervisor.send(FrameType.open, 0, JSON.stringify({ id: this.#id, network }));
    this.#supervisor.read(
      (frame) => this.#receive(frame),
      (problem) => this.#lost(problem),
    );
  }

  get pid(): number {
    return this.#pid;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Waits until it is made and its first kernel could be forked; what a spare does ahead of time. */
  async prepare(): Promise<void> {
    await this.#opened.promise;
    this.#ready ??= this.#attach();
    await this.#ready;
  }

  /** Closes the sandbox around pid 1. Failures come out of the next `launch`. */
  start(spec: LaunchSpec): void {
    this.#policy = JSON.stringify(spec);
    this.#template.bring(this.#id, this.#policy);
  }

  async launch(): Promise<KernelLink> {
    if (!this.#ready) await this.#opened.promise;
    const attaching = this.#ready ?? this.#attach();
    this.#ready = undefined;
    const { control, stdout, stderr, exited } = await attaching.catch((error) => {
      throw this.#failure ?? error;
    });
    // Pid 1 opens what the policy names while the kernel gives up its rights: both are told.
    control.send(FrameType.start, 0, this.#policy);
    if (!this.#alive) this.#bury();
    return {
      control,
      stdout,
      stderr,
      exited,
      interrupt: (execution) => this.#supervisor.send(FrameType.interrupt, execution),
      kill: () => this.#supervisor.send(FrameType.kill, 0),
    };
  }

  /** The reason why the sandbox could not be closed, if it could not. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#supervisor.close();
    await this.#gone.promise;
  }

  async #attach(): Promise<Attachment> {
    const id = randomUUID();
    // From here on: the kernel may die before anybody asks for it.
    this.#exited = Promise.withResolvers<Exit>();
    const exited = this.#exited.promise;
    const control = new FrameSocket(this.#template.path, fromKernel);
    control.send(FrameType.attach, 0, JSON.stringify({ id, sandbox: this.#id }));
    const paths = await new Promise<{ out: string; err: string }>((resolve, reject) => {
      control.read(
        (frame) => {
          if (frame.type === FrameType.attached) resolve(parseAttached(frame.payload));
          else if (frame.type === FrameType.failed) reject(asError(frame));
          else control.hold(frame);
        },
        () => reject(this.#failure ?? refusal('template', 'the template closed the connection')),
      );
    }).catch((error) => {
      control.close();
      throw error;
    });
    control.unread();
    try {
      return { control, stdout: new PipeSource(paths.out), stderr: new PipeSource(paths.err), exited };
    } catch (cause) {
      control.close();
      throw refusal('template', `its pipes could not be opened (${cause instanceof Error ? cause.message : cause})`);
    } finally {
      this.#template.opened(id);
    }
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
        this.#exited?.resolve({
          outOfMemory,
          ...(signal === undefined ? {} : { signal: signalNames.get(signal) ?? `signal ${signal}` }),
          ...(exitCode === undefined ? {} : { exitCode }),
        });
        break;
      }
      default:
        break; // STARTED tells the kernel's pid inside the sandbox: of use to people who read a trace
    }
  }

  #lost(problem?: Error): void {
    this.#alive = false;
    if (problem && 'code' in problem && (problem.code === 'ECONNREFUSED' || problem.code === 'ENOENT'))
      this.#template.lost();
    this.#opened.reject(this.#failure ?? refusal('template', problem?.message ?? 'the template closed the connection'));
    this.#bury();
    this.#gone.resolve();
  }

  #bury(): void {
    const lost = this.#closing ? 'its session was closed' : 'the sandbox it lived in has ended';
    this.#exited?.resolve({ outOfMemory: false, lost, ...(this.#closing ? { signal: 'SIGKILL' } : {}) });
  }
}

function asError(frame: Frame): Error {
  const { layer, message } = parseFailed(frame.payload);
  return refusal(layer, message);
}

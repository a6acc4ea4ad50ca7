/**
 * How the host reaches a supervisor: the port that sandboxes of a template and containers implement, with the frame sockets and
 * output pipes that both use.
 */

import { constants, openSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { BufferedFrameConnection, type ByteSource } from '../../kernel/kernel-connection.ts';
import { asError } from '../../lib/values.ts';
import { encodeFrame, FrameDecoder } from '../../protocol/kernel-frames.ts';
import type { Attach, ProgramSpec } from '../../protocol/kernel-payloads.ts';
import type { ProcessExit } from '../../protocol/process.ts';
import type { NetworkProxy } from '../../sandbox/proxy/proxy.ts';
import type { StartKernelOptions } from '../kernel-host.ts';
import type { PauseCheck } from './supervisor-client.ts';

/** What to connect to, if not to a new, empty kernel. */
export interface ConnectRequest {
  readonly from?: StartKernelOptions['from'];
  readonly spare?: boolean;
  readonly command?: ProgramSpec;
}

/** A connection to a kernel or a program. */
export interface ProcessConnection {
  readonly control: FrameSocket;
  readonly stdout: PipeSource;
  readonly stderr: PipeSource;
}

export interface SupervisorTransport {
  /** The connection to pid 1, which has received the spec. */
  readonly supervisor: FrameSocket;
  /** The pid of pid 1 on the host, if it cannot report it itself. */
  readonly pid?: number;
  /** The network proxy, if the policy names hosts. It ends with `release`. */
  readonly proxy?: NetworkProxy | undefined;
  /** `kernel` is the number that it will get. `signal` aborts if the process ends before it is connected. */
  connect(kernel: number, request: ConnectRequest, signal: AbortSignal): Promise<ProcessConnection>;
  /** How everything inside ended. Called once, when the connection to pid 1 is lost. */
  exitReason(problem: Error | undefined): Promise<ProcessExit>;
  /** Ends what is left and removes its files. Idempotent; never rejects. */
  close(): Promise<void>;
  /** Detects a paused environment. A kill of one process in it becomes a kill of all. */
  readonly pauseCheck: PauseCheck;
  /** Kills everything inside, even if it is paused. Idempotent; never rejects. `pid` is that of pid 1. */
  kill(pid: number): Promise<void>;
  /** Waits for an answer of the process that opens the environment; rejects if it takes too long. */
  awaitAnswer<T>(answer: Promise<T>): Promise<T>;
  /** Whether no more connections can be made. */
  readonly unusable?: boolean;
}

export function closeConnection({ control, stdout, stderr }: ProcessConnection): void {
  control.close();
  stdout.close();
  stderr.close();
}

/** The part of an ATTACH payload that all transports share. */
export function attachPayload(kernel: number, { from, spare = false, command }: ConnectRequest): Attach {
  return { kernel, snapshot: from?.snapshot ?? null, keep: from?.keep ?? false, spare, command };
}

/** Connects to the socket at a path, or uses one that is connected. */
export class FrameSocket extends BufferedFrameConnection {
  readonly #socket: Socket;
  readonly #decoder: FrameDecoder;
  readonly #connected = Promise.withResolvers<boolean>();

  constructor(socket: string | Socket, largest: ReadonlyMap<number, number>) {
    super();
    this.#decoder = new FrameDecoder(largest);
    this.#socket = typeof socket === 'string' ? connect(socket) : socket;
    if (typeof socket === 'string') this.#socket.once('connect', () => this.#connected.resolve(true));
    else this.#connected.resolve(true);
    this.#socket.on('data', (chunk) => this.#data(chunk));
    this.#socket.on('error', (problem) => this.#end(problem));
    this.#socket.on('close', () => this.#end());
  }

  send(type: number, id: number, payload: Uint8Array | string = ''): void {
    if (!this.#silent) this.#socket.write(encodeFrame(type, id, payload));
  }

  sendAndDrain(type: number, id: number, payload: Uint8Array): Promise<void> {
    if (this.#silent) return Promise.resolve();
    return new Promise((resolve) => this.#socket.write(encodeFrame(type, id, payload), () => resolve()));
  }

  /** Whether the connection was accepted. */
  get connected(): Promise<boolean> {
    return this.#connected.promise;
  }

  protected override pauseReading(): void {
    this.#socket.pause();
  }

  protected override resumeReading(): void {
    this.#socket.resume();
  }

  /** Whether nothing can be sent any more. Node treats a write after `finish` as the end of the connection. */
  get #silent(): boolean {
    return this.ended || this.#socket.writableEnded;
  }

  /** Stops sending; the other side may still send until it ends. */
  finish(): void {
    this.#socket.end();
  }

  close(): void {
    this.#socket.destroy();
  }

  #data(chunk: Buffer): void {
    try {
      for (const frame of this.#decoder.push(chunk)) this.deliver(frame);
    } catch (problem) {
      this.#end(asError(problem));
      this.#socket.destroy();
    }
  }

  #end(problem?: Error): void {
    this.#connected.resolve(false);
    this.finishReading(problem);
  }
}

/**
 * All pipes are read through one buffer: each chunk is used before the next read. V8 puts text of more than about 100 kB into
 * separate memory, which takes three times as long.
 */
const sharedBuffer = Buffer.allocUnsafe(96 * 1024);

/**
 * The read end of a pipe. Reading begins with `read`. One chunk is read in each turn of the event loop: libuv alone would read
 * 32 of them from a kernel that prints without end before anything else has a turn.
 */
export class PipeSource implements ByteSource {
  readonly #socket: Socket;
  #onChunk: ((chunk: Buffer) => boolean) | undefined;
  #reading = false;
  readonly #next = (): void => {
    if (this.#reading && !this.#socket.destroyed) this.#socket.resume();
  };

  constructor(path: string) {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const callback = (count: number, buffer: Uint8Array): boolean => {
      this.#reading = this.#onChunk?.(Buffer.from(buffer.buffer, buffer.byteOffset, count)) ?? false;
      if (!this.#reading || count < sharedBuffer.length) return this.#reading;
      setImmediate(this.#next);
      return false;
    };
    // `manualStart` keeps Node from reading at once; its type does not declare it.
    const options = {
      fd,
      readable: true,
      writable: false,
      manualStart: true,
      onread: { buffer: sharedBuffer, callback },
    };
    this.#socket = new Socket(options);
    this.#socket.on('error', () => this.#socket.destroy());
  }

  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void {
    this.#onChunk = onChunk;
    this.#socket.once('close', onEnd);
    this.#reading = true;
    this.#socket.resume();
  }

  resume(): void {
    if (this.#reading || this.#socket.destroyed) return;
    this.#reading = true;
    this.#socket.resume();
  }

  close(): void {
    this.#socket.destroy();
  }
}

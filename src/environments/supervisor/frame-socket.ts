/** Frames over sockets and output bytes over pipes, to supervisors and kernels. */

import { constants, openSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { BufferedFrameConnection } from '../../kernel/early-frames.ts';
import type { ByteSource } from '../../kernel/kernel-connection.ts';
import { encodeFrame, FrameDecoder } from '../../protocol/kernel-frames.ts';

/** To the socket at a path, or over one that is connected. */
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

  /** Whether nothing can be sent any more. Node takes a write after `finish` for the end of the connection. */
  get #silent(): boolean {
    return this.ended || this.#socket.writableEnded;
  }

  /** Nothing more is sent; the other side may still speak until it ends. */
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
      this.#end(problem instanceof Error ? problem : new Error(String(problem)));
      this.#socket.destroy();
    }
  }

  #end(problem?: Error): void {
    this.#connected.resolve(false);
    this.finishReading(problem);
  }
}

/**
 * Reads of every pipe go through one buffer: a chunk is used up before the next read. V8 puts text of more than some 100 kB
 * into memory of its own, which takes three times as long.
 */
const sharedBuffer = Buffer.allocUnsafe(96 * 1024);

/**
 * The reading end of a pipe. Nothing is read before `read`. One chunk is read in each turn of the event loop: left to
 * itself, libuv reads 32 of them from a kernel that prints without end before anybody else has a turn.
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
    // `manualStart` is what keeps Node from reading at once; its type does not know it.
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

/** The socket in a container's folder: accepts each expected connection once, by the random token that it begins with. */

import { randomBytes } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { onAbort } from '../../lib/abort.ts';
import { listenInFolder } from '../../lib/listen-in-folder.ts';
import { FrameType, HEADER_BYTES } from '../../protocol/kernel-frames.ts';

const SOCKET_NAME = 'host';
const TOKEN_BYTES = 32;
/** Limits the number and the duration of connections that have not sent a token yet. */
const MOST_UNAUTHENTICATED = 16;
const TOKEN_TIMEOUT_MS = 5000;

interface PendingConnection {
  readonly token: Buffer;
  readonly connection: Promise<Socket>;
}

export class ContainerListener {
  readonly #folder: string;
  readonly #server: Server;
  readonly #expected = new Map<string, PromiseWithResolvers<Socket>>();
  readonly #unauthenticated = new Set<Socket>();
  #open = true;

  private constructor(folder: string) {
    this.#folder = folder;
    this.#server = createServer((socket) => this.#onConnection(socket));
    this.#server.unref();
  }

  static async open(folder: string): Promise<ContainerListener> {
    const listener = new ContainerListener(folder);
    try {
      await listenInFolder(listener.#server, folder, SOCKET_NAME);
      return listener;
    } catch (error) {
      listener.close();
      throw error;
    }
  }

  /** Expects one connection that begins with the returned token, until `signal` aborts. */
  expect(signal: AbortSignal): PendingConnection {
    const token = randomBytes(TOKEN_BYTES);
    const key = token.toString('hex');
    const pending = Promise.withResolvers<Socket>();
    this.#expected.set(key, pending);
    const giveUp = () => {
      this.#expected.delete(key);
      pending.reject(signal.reason);
    };
    const aborting = onAbort(signal, giveUp);
    const connection = pending.promise.finally(() => aborting[Symbol.dispose]());
    return { token, connection };
  }

  /** Removes the socket's name, so that only a process that already holds the socket can still connect. */
  hide(): void {
    unlinkSync(join(this.#folder, SOCKET_NAME));
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#server.close();
    for (const socket of this.#unauthenticated) socket.destroy();
    for (const pending of this.#expected.values()) pending.reject(new Error('the listener was closed'));
    this.#expected.clear();
  }

  #onConnection(socket: Socket): void {
    const [oldest] = this.#unauthenticated;
    if (oldest && this.#unauthenticated.size >= MOST_UNAUTHENTICATED) oldest.destroy();
    this.#unauthenticated.add(socket);
    const reject = () => socket.destroy();
    const timer = setTimeout(reject, TOKEN_TIMEOUT_MS).unref();
    const listen = () => {
      const header: Buffer | null = socket.read(HEADER_BYTES + TOKEN_BYTES);
      if (header === null) return;
      const pending = this.#take(header);
      if (!pending) return void socket.destroy();
      // Errors still close the socket until its new owner listens.
      socket.off('readable', listen).off('close', leave);
      leave();
      pending.resolve(socket);
    };
    const leave = () => {
      clearTimeout(timer);
      this.#unauthenticated.delete(socket);
    };
    socket.on('readable', listen).on('error', reject).on('close', leave);
  }

  #take(header: Buffer): PromiseWithResolvers<Socket> | undefined {
    if (header.readUInt32LE(0) !== TOKEN_BYTES || header.readUInt8(4) !== FrameType.join) return undefined;
    const key = header.toString('hex', HEADER_BYTES);
    const pending = this.#expected.get(key);
    this.#expected.delete(key);
    return pending;
  }
}

/**
 * One terminal on a WebSocket: bytes both ways, as fast as the slower side takes them.
 *
 * It lives as long as its connection: where that ends, so does every process of the terminal. Meanwhile the session is
 * in use, and is not put to sleep.
 */

import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import { parseCheapJson } from '../../lib/json-scanner.ts';
import { CloseCode, MOST_TYPED_BYTES, TerminalClientFrame } from '../../protocol/api/socket-frames.ts';
import type { Terminal, TerminalOptions } from '../../protocol/workspace-models.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { errorBody, invalidRequest, toCellaError } from './error-response.ts';
import type { Reauthorize } from './router.ts';
import type { ServerContext } from './server-context.ts';
import { SocketConnection } from './socket-connection.ts';

export interface TerminalSocketOptions {
  readonly service: ServerContext;
  readonly session: ServerSession;
  readonly wish: TerminalOptions;
  readonly reauthorize: Reauthorize;
  /** Told when it has gone. */
  readonly left: (code: number) => void;
  readonly log: Logger;
}

/** A person who stops a flood does not see it go on for long. */
const BUFFER_BYTES = 256 * 1024;
/** How long somebody whose token was revoked may go on at most. */
const CHECK_EVERY_MS = 1000;
const ENDED = 1000;

export class TerminalSocket {
  readonly #socket: WebSocket;
  readonly #options: TerminalSocketOptions;
  readonly #connection: SocketConnection;
  readonly #terminal = Promise.withResolvers<Terminal | undefined>();
  #typing: Promise<unknown> = Promise.resolve();
  #untyped = 0;
  #checkedAt = performance.now();

  constructor(socket: WebSocket, options: TerminalSocketOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, reauthorize, log, left } = options;
    this.#connection = new SocketConnection(socket, {
      service,
      reauthorize,
      log,
      bufferBytes: BUFFER_BYTES,
      onClosed: left,
    });
    socket.on('message', (data, binary) => this.#take(data, binary));
    void this.#run();
  }

  async #run(): Promise<void> {
    const { session, wish } = this.#options;
    const { over, outbox } = this.#connection;
    try {
      await session.use(async (inside) => {
        if (over.aborted) return;
        await using terminal = await inside.terminal(wish);
        // It may have gone while the program was started.
        if (over.aborted) return;
        over.addEventListener('abort', () => void terminal.close(), { once: true });
        this.#terminal.resolve(terminal);
        for await (const chunk of terminal.output) {
          await outbox.sendBytes(chunk);
          if (over.aborted || !(await this.#mayGoOn())) return;
        }
        await outbox.send({ type: 'exit', ...(await terminal.exited) });
      });
      this.#connection.close(ENDED, 'it has ended');
    } catch (error) {
      await this.#fail(error);
    } finally {
      this.#terminal.resolve(undefined);
    }
  }

  async #fail(error: unknown): Promise<void> {
    const told = toCellaError(error, '-');
    if (told.code === 'INTERNAL') this.#options.log.error({ err: error }, 'unexpected');
    await this.#connection.outbox.send({ type: 'error', ...errorBody(told) });
    this.#connection.close(CloseCode.failed, told.code);
  }

  #take(data: RawData, binary: boolean): void {
    if (this.#connection.over.aborted) return;
    this.#connection.heard();
    if (!binary) this.#heed(String(data));
    else if (sizeOf(data) > MOST_TYPED_BYTES) this.#connection.close(CloseCode.tooLarge, 'a frame is too large');
    else this.#type(toBytes(data));
  }

  /** Nothing more is read from the client while the program has not taken what there is. */
  #type(bytes: Uint8Array): void {
    if (this.#untyped++ === 0) this.#socket.pause();
    this.#typing = this.#typing
      .then(async () => {
        const terminal = await this.#terminal.promise;
        if (terminal && !this.#connection.over.aborted && (await this.#mayGoOn())) await terminal.write(bytes);
      })
      .finally(() => {
        if (--this.#untyped === 0) this.#socket.resume();
      });
  }

  #heed(text: string): void {
    const given = parseCheapJson(text);
    if (!this.#connection.budget.frame()) this.#connection.close(CloseCode.tooMuch, 'too many frames');
    else if (given === undefined) this.#connection.close(CloseCode.wrong, 'no JSON text');
    else {
      const { success, data, error } = TerminalClientFrame.safeParse(given);
      if (!success) void this.#connection.outbox.send({ type: 'error', ...errorBody(invalidRequest(error)) });
      else void this.#terminal.promise.then((terminal) => terminal?.resize({ cols: data.cols, rows: data.rows }));
    }
  }

  async #mayGoOn(): Promise<boolean> {
    if (performance.now() - this.#checkedAt < CHECK_EVERY_MS) return true;
    this.#checkedAt = performance.now();
    return await this.#connection.check();
  }
}

const sizeOf = (data: RawData): number =>
  Array.isArray(data) ? data.reduce((sum, part) => sum + part.length, 0) : data.byteLength;

const toBytes = (data: RawData): Uint8Array =>
  Array.isArray(data) ? Buffer.concat(data) : data instanceof ArrayBuffer ? new Uint8Array(data) : data;

/**
 * Serves one terminal on a WebSocket: bytes in both directions, as fast as the slower side reads.
 *
 * Every process of the terminal ends with its connection. Until then the session counts as in use and does not hibernate.
 */

import type { Logger } from 'pino';
import type { RawData, WebSocket } from 'ws';
import { SMALL_BYTES, tryParseJson } from '../../lib/json-scanner.ts';
import { CloseCode, MOST_TYPED_BYTES, TerminalClientFrame } from '../../protocol/api/socket-frames.ts';
import type { Terminal, TerminalOptions } from '../../protocol/workspace-models.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { errorBody, invalidRequest, toCellaError } from './error-response.ts';
import type { Reauthorize } from './router.ts';
import type { CountUnread, ReportRefusal, ServerContext } from './server-context.ts';
import { SocketConnection } from './socket-connection.ts';

interface TerminalSocketOptions {
  readonly service: ServerContext;
  readonly session: ServerSession;
  readonly options: TerminalOptions;
  readonly reauthorize: Reauthorize;
  readonly unread: CountUnread;
  readonly onRefused: ReportRefusal;
  /** Called when the connection has closed. */
  readonly left: (code: number) => void;
  readonly log: Logger;
}

/** Small, so that a user who interrupts a flood of output soon sees it stop. */
const BUFFER_BYTES = 256 * 1024;
/** How long a client with a revoked token can continue at most. */
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
    const { service, reauthorize, log, unread, onRefused, left: onClosed } = options;
    this.#connection = new SocketConnection(socket, {
      ...{ service, reauthorize, log, unread, onRefused, onClosed },
      bufferBytes: BUFFER_BYTES,
      canResume: false,
    });
    socket.on('message', (data, binary) => this.#take(data, binary));
    this.#connection.startHeartbeats();
    this.#connection.run(this.#run());
  }

  async #run(): Promise<void> {
    const { session, options } = this.#options;
    const { over, sendQueue } = this.#connection;
    try {
      await session.use(async (inside) => {
        if (over.aborted) return;
        await using terminal = await inside.terminal(options);
        // The client may have disconnected while the program started.
        if (over.aborted) return;
        over.addEventListener('abort', () => this.#connection.run(terminal.close()), { once: true });
        this.#terminal.resolve(terminal);
        for await (const chunk of terminal.output) {
          await sendQueue.sendBytes(chunk);
          if (over.aborted || !(await this.#mayGoOn())) return;
        }
        await sendQueue.send({ type: 'exit', ...(await terminal.exited) });
      });
      this.#connection.close(ENDED, 'it has ended');
    } catch (error) {
      await this.#fail(error);
    } finally {
      this.#terminal.resolve(undefined);
    }
  }

  async #fail(error: unknown): Promise<void> {
    const failure = toCellaError(error, '-');
    if (failure.code === 'INTERNAL') this.#options.log.error({ err: error }, 'unexpected');
    await this.#connection.sendQueue.send({ type: 'error', ...errorBody(failure) });
    this.#connection.close(CloseCode.failed, failure.code);
  }

  #take(data: RawData, binary: boolean): void {
    if (this.#connection.over.aborted) return;
    this.#connection.alive();
    if (!binary) this.#handleFrame(data);
    else if (sizeOf(data) > MOST_TYPED_BYTES) this.#connection.close(CloseCode.tooLarge, 'a frame is too large');
    else this.#type(toBytes(data));
  }

  /** Stops reading from the client until the program has taken the input. */
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
    this.#connection.run(this.#typing);
  }

  #handleFrame(data: RawData): void {
    // All valid frames are short.
    const given = Buffer.isBuffer(data) && data.length <= SMALL_BYTES ? tryParseJson(data.toString()) : undefined;
    if (!this.#connection.budget.frame()) this.#connection.close(CloseCode.tooMuch, 'too many frames');
    else if (given === undefined) this.#connection.close(CloseCode.wrong, 'no JSON text');
    else {
      const { success, data: frame, error } = TerminalClientFrame.safeParse(given);
      const done = success
        ? this.#terminal.promise.then((terminal) => terminal?.resize({ cols: frame.cols, rows: frame.rows }))
        : this.#connection.sendQueue.send({ type: 'error', ...errorBody(invalidRequest(error)) });
      this.#connection.run(done);
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

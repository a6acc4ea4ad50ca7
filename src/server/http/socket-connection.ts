/** The server end of a WebSocket: bounded sending, heartbeats, and closing of slow or no longer authorized clients. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { onAbort } from '../../lib/abort.ts';
import { CloseCode, type ServerFrame, type TerminalServerFrame } from '../../protocol/api/socket-frames.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Dropped } from '../metrics.ts';
import { FrameRateLimit } from '../request-limits.ts';
import { whyForbidden } from './event-responses.ts';
import type { Reauthorize } from './router.ts';
import type { ReportRefusal, ServerContext, StreamLimits } from './server-context.ts';

interface SocketConnectionOptions {
  readonly service: ServerContext;
  readonly reauthorize: Reauthorize;
  readonly log: Logger;
  /** Limit on buffered bytes, if lower than the default. */
  readonly bufferBytes?: number;
  /** Called if the client sends too much. */
  readonly onRefused: ReportRefusal;
  /** Called when the connection has closed. */
  readonly onClosed: (code: number) => void;
}

/** How long the client has to read the sent data and to answer the close frame. */
const CLOSING_MS = 5000;
/** The limit of the protocol. */
const MOST_REASON_BYTES = 123;

/** Sends the close frame, and cuts off a client that does not answer in time. */
export function closeSocket(socket: WebSocket, code: number, reason: string, withinMs = CLOSING_MS): void {
  // Without this, the client's close frame would not be read.
  socket.resume();
  const { read } = new TextEncoder().encodeInto(reason, new Uint8Array(MOST_REASON_BYTES));
  socket.close(code, reason.slice(0, read));
  setTimeout(() => socket.terminate(), withinMs).unref();
}

/** How disconnected clients are counted. */
const drops = new Map<number, Dropped>([
  [CloseCode.slow, 'slow'],
  [CloseCode.refused, 'refused'],
]);

export class SocketConnection {
  readonly budget = new FrameRateLimit();
  readonly sendQueue: SendQueue;
  readonly #socket: WebSocket;
  readonly #options: SocketConnectionOptions;
  readonly #over = new AbortController();
  readonly #heartbeat = new Heartbeat();
  #tellsClient = false;

  constructor(socket: WebSocket, options: SocketConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, log } = options;
    const limits = { ...service.limits, bufferBytes: options.bufferBytes ?? service.limits.bufferBytes };
    this.sendQueue = new SendQueue(socket, limits, this.over, () => this.close(CloseCode.slow, 'too slow'));
    const heartbeat = setInterval(() => this.run(this.#beat()), service.limits.heartbeatMs);
    socket.on('ping', (data) => this.#pong(data));
    socket.on('pong', () => {
      this.alive();
      if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    });
    // An invalid or too large frame. The socket closes itself.
    socket.on('error', (error) => log.debug({ reason: error.message }, 'websocket'));
    socket.once('close', (code) => {
      clearInterval(heartbeat);
      closing[Symbol.dispose]();
      this.#over.abort();
      options.onClosed(code);
    });
    const closing = onAbort(service.closing, () => this.close(CloseCode.closing, 'the server is shutting down'));
  }

  /** Aborted when the connection ends, on either side. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Sends the client the reason. A client that does not answer is cut off. */
  close(code: number, reason: string): void {
    if (this.over.aborted) return;
    this.#over.abort();
    const dropped = drops.get(code);
    if (dropped) this.#options.service.metrics.dropped(dropped);
    if (code === CloseCode.tooMuch) this.#options.onRefused(reason);
    closeSocket(this.#socket, code, reason);
  }

  /** Closes the connection if the work fails: nobody waits for it. */
  run(work: Promise<unknown>): void {
    work.catch((error) => {
      this.#options.log.error({ err: error }, 'unexpected');
      this.close(CloseCode.failed, 'unexpected error');
    });
  }

  /** The client sent data. Its pong may be queued behind a lot of data, so any data counts. */
  alive(): void {
    this.#heartbeat.alive();
  }

  /** Sends heartbeats from now on, so that the client notices if the network silently drops data. */
  startHeartbeats(): void {
    this.#tellsClient = true;
    this.#sendHeartbeat();
  }

  /** Whether the client is still authorized. Closes the connection if not. */
  async check(): Promise<boolean> {
    if (await whyForbidden(this.#options.reauthorize)) this.close(CloseCode.refused, 'the token is no longer valid');
    return !this.over.aborted;
  }

  /** Sends pongs only to clients that read: unread pongs would pile up. */
  #pong(data: Buffer): void {
    this.alive();
    if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    else if (this.sendQueue.isWritable) this.#socket.pong(data);
  }

  async #beat(): Promise<void> {
    // First read what arrived while this process was busy.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.over.aborted) return;
    const action = this.#heartbeat.beat({ room: this.sendQueue.isWritable, listening: !this.#socket.isPaused });
    // The client has not read the last ping, or is gone.
    if (action === 'close') return this.close(CloseCode.slow, 'too slow');
    if (action === 'ping') this.#socket.ping();
    if (this.#tellsClient) this.#sendHeartbeat();
    await this.check();
  }

  /** Skips the heartbeat if data is queued: that data shows life, too. */
  #sendHeartbeat(): void {
    if (!this.sendQueue.isWritable) return;
    this.run(this.sendQueue.send({ type: 'heartbeat', everyMs: this.#options.service.limits.heartbeatMs }));
  }
}

export class SendQueue {
  readonly #socket: WebSocket;
  readonly #limits: StreamLimits;
  readonly #over: AbortSignal;
  readonly #onSlow: () => void;

  /** Calls `onSlow` if the client has not read for too long. Sends nothing once `over` is aborted. */
  constructor(socket: WebSocket, limits: StreamLimits, over: AbortSignal, onSlow: () => void) {
    this.#socket = socket;
    this.#limits = limits;
    this.#over = over;
    this.#onSlow = onSlow;
  }

  /** Whether the client has read nearly all sent data. */
  get isWritable(): boolean {
    return this.#socket.bufferedAmount <= this.#limits.bufferBytes;
  }

  /** Resolves when there is room for more. */
  send(frame: ServerFrame | StreamItem | TerminalServerFrame): Promise<void> {
    return this.#send('seq' in frame ? eventText(frame) : JSON.stringify(frame));
  }

  /** Like `send`, for a binary frame. */
  sendBytes(chunk: Uint8Array): Promise<void> {
    return this.#send(chunk);
  }

  async #send(data: string | Uint8Array): Promise<void> {
    if (this.#over.aborted) return;
    const sent = Promise.withResolvers<void>();
    this.#socket.send(data, () => sent.resolve());
    if (!this.isWritable) await this.#taken(sent.promise);
  }

  /** Resolves when the client has read this or is disconnected. A client is slow if it reads nothing at all for too long. */
  async #taken(sent: Promise<void>): Promise<void> {
    const over = new AbortController();
    const signal = AbortSignal.any([this.#over, over.signal]);
    for (let left = this.#socket.bufferedAmount; ; ) {
      const slow = delay(this.#limits.slowClientTimeoutMs, 'slow', { signal }).catch(() => 'over');
      if ((await Promise.race([sent, slow])) !== 'slow') break;
      const before = left;
      left = this.#socket.bufferedAmount;
      if (left < before) continue;
      this.#onSlow();
      break;
    }
    over.abort();
  }
}

interface HeartbeatState {
  /** Whether there is room for a ping. If much data is queued, reading it shows life as well. */
  readonly room: boolean;
  /** Whether the server is reading, and would see the pong. */
  readonly listening: boolean;
}

export class Heartbeat {
  /** The client was pinged and has sent nothing since. */
  #silent = false;

  alive(): void {
    this.#silent = false;
  }

  /** What to do at this beat. A client that was not pinged is not overdue. */
  beat({ room, listening }: HeartbeatState): 'ping' | 'wait' | 'close' {
    if (this.#silent) return 'close';
    if (!room) return 'wait';
    this.#silent = listening;
    return 'ping';
  }
}

/** Caches the text of events, which never change. */
const texts = new WeakMap<StreamItem, string>();

function eventText(event: StreamItem): string {
  const known = texts.get(event);
  if (known !== undefined) return known;
  const text = JSON.stringify(event);
  texts.set(event, text);
  return text;
}

/** The server end of a WebSocket: bounded sending, heartbeats, and closing of slow or no longer authorized clients. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { onAbort } from '../../lib/abort.ts';
import { CloseCode, type ServerFrame, type TerminalServerFrame } from '../../protocol/api/socket-frames.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Dropped } from '../metrics.ts';
import { FrameRateLimit } from '../request-limits.ts';
import type { UnreadData } from '../unread-limit.ts';
import { whyForbidden } from './event-responses.ts';
import type { Reauthorize } from './router.ts';
import type { CountUnread, ReportRefusal, ServerContext, StreamLimits } from './server-context.ts';

interface SocketConnectionOptions {
  readonly service: ServerContext;
  readonly reauthorize: Reauthorize;
  readonly log: Logger;
  /** Limit on buffered bytes, if lower than the default. */
  readonly bufferBytes?: number;
  readonly unread: CountUnread;
  /** Whether its client can reconnect and loses nothing. */
  readonly canResume: boolean;
  /** Called if the client sends too much. */
  readonly onRefused: ReportRefusal;
  /** Called when the connection has closed. */
  readonly onClosed: (code: number) => void;
}

/** How long the client has to read the sent data and to answer the close frame. */
const CLOSING_MS = 5000;
/** The same, if others need the memory. */
const CUT_MS = 1000;
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
  /** What the client has not read. */
  readonly memory: UnreadData;
  readonly #socket: WebSocket;
  readonly #options: SocketConnectionOptions;
  readonly #over = new AbortController();
  readonly #heartbeat = new Heartbeat();
  #tellsClient = false;

  constructor(socket: WebSocket, options: SocketConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, log, unread, canResume, bufferBytes = service.limits.bufferBytes } = options;
    const { slowClientTimeoutMs } = service.limits;
    const cut = () => this.close(CloseCode.slow, 'unread data uses too much memory', CUT_MS);
    this.memory = unread(canResume ? cut : undefined);
    this.sendQueue = new SendQueue(socket, {
      ...{ slowClientTimeoutMs, bufferBytes, memory: this.memory, over: this.over },
      onSlow: () => this.close(CloseCode.slow, 'too slow'),
    });
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
      this.memory[Symbol.dispose]();
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
  close(code: number, reason: string, withinMs = CLOSING_MS): void {
    if (this.over.aborted) return;
    this.#over.abort();
    const dropped = drops.get(code);
    if (dropped) this.#options.service.metrics.dropped(dropped);
    if (code === CloseCode.tooMuch) this.#options.onRefused(reason);
    closeSocket(this.#socket, code, reason, withinMs);
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

/** Approximate overhead of a frame that waits, however small it is. */
export const FRAME_BYTES = 512;

interface SendQueueOptions extends Pick<StreamLimits, 'slowClientTimeoutMs' | 'bufferBytes'> {
  readonly memory: Pick<UnreadData, 'resize' | 'isFull'>;
  /** Nothing is sent once it is aborted. */
  readonly over: AbortSignal;
  /** Called if the client has not read for too long. */
  readonly onSlow: () => void;
}

export class SendQueue {
  readonly #socket: WebSocket;
  readonly #options: SendQueueOptions;
  /** Of the frames that were sent and not read yet. */
  #bytes = 0;

  constructor(socket: WebSocket, options: SendQueueOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  /** Whether the client has read nearly all sent data. */
  get isWritable(): boolean {
    const { bufferBytes, memory } = this.#options;
    const waiting = this.#socket.bufferedAmount;
    return waiting <= bufferBytes && (waiting === 0 || !memory.isFull);
  }

  /** Resolves when there is room for more. */
  send(frame: ServerFrame | StreamItem | TerminalServerFrame): Promise<void> {
    return this.#send('seq' in frame ? eventBytes(frame) : Buffer.from(JSON.stringify(frame)), false);
  }

  /** Like `send`, for a binary frame. */
  sendBytes(chunk: Uint8Array): Promise<void> {
    return this.#send(chunk, true);
  }

  async #send(data: Uint8Array, binary: boolean): Promise<void> {
    if (this.#options.over.aborted) return;
    const sent = Promise.withResolvers<void>();
    const bytes = data.byteLength + FRAME_BYTES;
    this.#bytes += bytes;
    this.#socket.send(data, { binary }, () => {
      this.#bytes -= bytes;
      this.#count();
      sent.resolve();
    });
    this.#count();
    if (!this.isWritable) await this.#taken(sent.promise);
  }

  /** Most data is with the system at once, and takes no memory here. */
  #count(): void {
    this.#options.memory.resize(this.#socket.bufferedAmount === 0 ? 0 : this.#bytes);
  }

  /** Resolves when the client has read this or is disconnected. A client is slow if it reads nothing at all for too long. */
  async #taken(sent: Promise<void>): Promise<void> {
    const over = new AbortController();
    const { slowClientTimeoutMs, onSlow } = this.#options;
    const signal = AbortSignal.any([this.#options.over, over.signal]);
    for (let left = this.#socket.bufferedAmount; ; ) {
      const slow = delay(slowClientTimeoutMs, 'slow', { signal }).catch(() => 'over');
      if ((await Promise.race([sent, slow])) !== 'slow') break;
      const before = left;
      left = this.#socket.bufferedAmount;
      if (left < before) continue;
      onSlow();
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

/** Events never change. All clients that get an event share its bytes. */
const encoded = new WeakMap<StreamItem, Buffer>();

function eventBytes(event: StreamItem): Buffer {
  const known = encoded.get(event);
  if (known !== undefined) return known;
  const bytes = Buffer.from(JSON.stringify(event));
  encoded.set(event, bytes);
  return bytes;
}

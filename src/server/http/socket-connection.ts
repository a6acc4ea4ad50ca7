/**
 * The server end of a WebSocket: bounded sending, bounded memory for messages without an end, heartbeats, and closing of slow
 * or no longer authorized clients.
 */

import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { WebSocket } from 'ws';
import { onAbort } from '../../lib/abort.ts';
import { systemCode } from '../../lib/values.ts';
import { CloseCode, type ServerFrame, type TerminalServerFrame } from '../../protocol/api/socket-frames.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Dropped } from '../metrics.ts';
import { type ByteReservation, FrameRateLimit } from '../request-limits.ts';
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
  readonly outbox: Outbox;
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
    this.outbox = new Outbox(socket, limits, this.over, () => this.close(CloseCode.slow, 'too slow'));
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
    else if (this.outbox.isWritable) this.#socket.pong(data);
  }

  async #beat(): Promise<void> {
    // First read what arrived while this process was busy.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.over.aborted) return;
    const todo = this.#heartbeat.beat({ room: this.outbox.isWritable, listening: !this.#socket.isPaused });
    // The client has not read the last ping, or is gone.
    if (todo === 'let go') return this.close(CloseCode.slow, 'too slow');
    if (todo === 'ask') this.#socket.ping();
    if (this.#tellsClient) this.#sendHeartbeat();
    await this.check();
  }

  /** Skips the heartbeat if data is queued: that data shows life, too. */
  #sendHeartbeat(): void {
    if (!this.outbox.isWritable) return;
    this.run(this.outbox.send({ type: 'heartbeat', everyMs: this.#options.service.limits.heartbeatMs }));
  }
}

export class Outbox {
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
  beat({ room, listening }: HeartbeatState): 'ask' | 'wait' | 'let go' {
    if (this.#silent) return 'let go';
    if (!room) return 'wait';
    this.#silent = listening;
    return 'ask';
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

/** Approximate overhead per piece, however small it is. */
const PIECE_BYTES = 512;
const HEAD_BYTES = 2;
const MASK_BYTES = 4;

export class Unfinished {
  readonly #head = Buffer.alloc(HEAD_BYTES + 8 + MASK_BYTES);
  #headHas = 0;
  /** How many bytes of the frame's payload are still to come. */
  #left = 0;
  /** Whether the current message has more frames. */
  #within = false;
  #held = 0;

  /** The memory held after this piece. A piece stays in memory as a whole while any part of it is needed. */
  after(piece: Buffer): number {
    let costs = piece.length + PIECE_BYTES;
    for (let at = 0; at < piece.length; ) {
      if (this.#left === 0) {
        this.#head[this.#headHas++] = piece[at++] ?? 0;
        if (!this.#isHead()) continue;
        costs += PIECE_BYTES;
      }
      const part = Math.min(this.#left, piece.length - at);
      this.#left -= part;
      at += part;
      if (this.#left === 0) this.#endFrame();
    }
    const open = this.#within || this.#headHas > 0;
    this.#held = open ? this.#held + costs : 0;
    return this.#held;
  }

  /** Whether the frame's head is complete. */
  #isHead(): boolean {
    if (this.#headHas < HEAD_BYTES) return false;
    const second = this.#head[1] ?? 0;
    const short = second & 0x7f;
    const extended = short === 127 ? 8 : short === 126 ? 2 : 0;
    if (this.#headHas < HEAD_BYTES + extended + (second & 0x80 ? MASK_BYTES : 0)) return false;
    if (extended === 0) this.#left = short;
    else if (extended === 2) this.#left = this.#head.readUInt16BE(HEAD_BYTES);
    else this.#left = Number(this.#head.readBigUInt64BE(HEAD_BYTES));
    return true;
  }

  #endFrame(): void {
    this.#headHas = 0;
    const first = this.#head[0] ?? 0;
    // Control frames may come between the frames of a message.
    if ((first & 0x0f) >= 8) return;
    this.#within = (first & 0x80) === 0;
    if (!this.#within) this.#held = 0;
  }
}

/** Closes the client if there is no room for the rest of its message. Complete messages are unaffected. */
export function limitPartialMessages(
  client: WebSocket,
  connection: Duplex,
  hold: ByteReservation,
  onRefused: ReportRefusal,
): void {
  const unfinished = new Unfinished();
  const count = (piece: Buffer) => {
    try {
      hold.resize(unfinished.after(piece));
    } catch {
      const reason = 'unfinished messages use too much memory';
      onRefused(reason);
      // Discard whatever else the client sends, and do not wait for its close frame.
      connection.removeAllListeners('data');
      closeSocket(client, CloseCode.tooMuch, reason);
      connection.resume();
      connection.end();
    }
  };
  connection.prependListener('data', count);
  // After an error, nothing more is read or held.
  client.once('error', (error) => {
    if (systemCode(error) === 'WS_ERR_TOO_MANY_BUFFERED_PARTS') onRefused('too many parts of a message');
    connection.off('data', count);
    hold[Symbol.dispose]();
  });
  client.once('close', () => hold[Symbol.dispose]());
}

/** The server end of one WebSocket: sends within limits, heartbeats, and closes clients that do not read or may no longer. */

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
import type { ServerContext, StreamLimits } from './server-context.ts';

interface SocketConnectionOptions {
  readonly service: ServerContext;
  readonly reauthorize: Reauthorize;
  readonly log: Logger;
  /** What may wait in the connection, where it is less than for others. */
  readonly bufferBytes?: number;
  /** Told when it has gone. */
  readonly onClosed: (code: number) => void;
}

/** How long the other side has to take what was sent before, and to answer that it is closed. */
const CLOSING_MS = 5000;
/** Those who are let go, as they are counted. */
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

  constructor(socket: WebSocket, options: SocketConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, log } = options;
    const limits = { ...service.limits, bufferBytes: options.bufferBytes ?? service.limits.bufferBytes };
    this.outbox = new Outbox(socket, limits, this.over, () => this.close(CloseCode.slow, 'too slow'));
    const heartbeat = setInterval(() => void this.#beat(), service.limits.heartbeatMs);
    socket.on('ping', (data) => this.#pong(data));
    socket.on('pong', () => {
      this.heard();
      if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    });
    // What is no WebSocket frame, or too large; the socket closes itself.
    socket.on('error', (error) => log.debug({ reason: error.message }, 'websocket'));
    socket.once('close', (code) => {
      clearInterval(heartbeat);
      ending[Symbol.dispose]();
      this.#over.abort();
      options.onClosed(code);
    });
    const ending = onAbort(service.ending, () => this.close(CloseCode.stopping, 'the server is ending'));
  }

  /** Aborted when it ends, by whomever. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** The client is told why; one that does not answer is cut off. */
  close(code: number, reason: string): void {
    if (this.over.aborted) return;
    this.#over.abort();
    const dropped = drops.get(code);
    if (dropped) this.#options.service.metrics.dropped(dropped);
    // Its answer is not heard otherwise.
    this.#socket.resume();
    this.#socket.close(code, reason);
    setTimeout(() => this.#socket.terminate(), CLOSING_MS).unref();
  }

  /** It has sent something: an answer to a ping may wait behind much of that. */
  heard(): void {
    this.#heartbeat.heard();
  }

  /** Whether it may still be here; it is closed where it may not. */
  async check(): Promise<boolean> {
    if (await whyForbidden(this.#options.reauthorize)) this.close(CloseCode.refused, 'the token is no longer good');
    return !this.over.aborted;
  }

  /** Only to those who read: pongs that nobody takes would pile up. */
  #pong(data: Buffer): void {
    this.heard();
    if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    else if (this.outbox.isWritable) this.#socket.pong(data);
  }

  async #beat(): Promise<void> {
    // What has arrived while this process was busy is read first.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.over.aborted) return;
    const todo = this.#heartbeat.beat({ room: this.outbox.isWritable, listening: !this.#socket.isPaused });
    // It has not read the last ping, or is no longer there.
    if (todo === 'let go') return this.close(CloseCode.slow, 'too slow');
    if (todo === 'ask') this.#socket.ping();
    await this.check();
  }
}

export class Outbox {
  readonly #socket: WebSocket;
  readonly #limits: StreamLimits;
  readonly #over: AbortSignal;
  readonly #onSlow: () => void;

  /** `onSlow` is told where the client has not read for too long; nothing is sent once `over` is aborted. */
  constructor(socket: WebSocket, limits: StreamLimits, over: AbortSignal, onSlow: () => void) {
    this.#socket = socket;
    this.#limits = limits;
    this.#over = over;
    this.#onSlow = onSlow;
  }

  /** Whether what was sent before has been taken, but for a little. */
  get isWritable(): boolean {
    return this.#socket.bufferedAmount <= this.#limits.bufferBytes;
  }

  /** Resolves when there is room for more. */
  send(frame: ServerFrame | StreamItem | TerminalServerFrame): Promise<void> {
    return this.#send('seq' in frame ? eventText(frame) : JSON.stringify(frame));
  }

  /** The same for a frame of bytes. */
  sendBytes(chunk: Uint8Array): Promise<void> {
    return this.#send(chunk);
  }

  async #send(data: string | Uint8Array): Promise<void> {
    if (this.#over.aborted) return;
    const sent = Promise.withResolvers<void>();
    this.#socket.send(data, () => sent.resolve());
    if (!this.isWritable) await this.#taken(sent.promise);
  }

  /** Resolves when the client has taken this, or is let go: it is slow where it has taken nothing at all for so long. */
  async #taken(sent: Promise<void>): Promise<void> {
    const patience = new AbortController();
    const signal = AbortSignal.any([this.#over, patience.signal]);
    for (let left = this.#socket.bufferedAmount; ; ) {
      const slow = delay(this.#limits.patienceMs, 'slow', { signal }).catch(() => 'over');
      if ((await Promise.race([sent, slow])) !== 'slow') break;
      const before = left;
      left = this.#socket.bufferedAmount;
      if (left < before) continue;
      this.#onSlow();
      break;
    }
    patience.abort();
  }
}

interface HeartbeatState {
  /** Whether there is room for the question: where much is on its way, how that is taken tells as much. */
  readonly room: boolean;
  /** Whether an answer would be heard. */
  readonly listening: boolean;
}

export class Heartbeat {
  /** It was asked, and has said nothing since. */
  #silent = false;

  heard(): void {
    this.#silent = false;
  }

  /** What there is to do at this beat. One that was not asked is not missed. */
  beat({ room, listening }: HeartbeatState): 'ask' | 'wait' | 'let go' {
    if (this.#silent) return 'let go';
    if (!room) return 'wait';
    this.#silent = listening;
    return 'ask';
  }
}

/** Events never change; those that nobody holds any more are forgotten here too. */
const texts = new WeakMap<StreamItem, string>();

function eventText(event: StreamItem): string {
  const known = texts.get(event);
  if (known !== undefined) return known;
  const text = JSON.stringify(event);
  texts.set(event, text);
  return text;
}

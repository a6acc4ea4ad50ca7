/**
 * The life of one client on a WebSocket: signs of life, whether it may still be here, and how it ends.
 *
 * A client that does not read, or has gone without a word, is let go; one whose token was revoked, too.
 */

import type { WebSocket } from 'ws';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { FrameRateLimit } from '../request-limits.ts';
import { refusalOf } from './feed.ts';
import type { Logger } from './logs.ts';
import type { Dropped } from './metrics.ts';
import { Outbox } from './outbox.ts';
import { Pulse } from './pulse.ts';
import type { Recheck } from './router.ts';
import type { Service } from './service.ts';

export interface LifeOptions {
  readonly service: Service;
  readonly recheck: Recheck;
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

export class SocketLife {
  readonly budget = new FrameRateLimit();
  readonly outbox: Outbox;
  readonly #socket: WebSocket;
  readonly #options: LifeOptions;
  readonly #over = new AbortController();
  readonly #pulse = new Pulse();

  constructor(socket: WebSocket, options: LifeOptions) {
    this.#socket = socket;
    this.#options = options;
    const { service, log } = options;
    const limits = { ...service.streams, bufferBytes: options.bufferBytes ?? service.streams.bufferBytes };
    this.outbox = new Outbox(socket, limits, this.over, () => this.close(CloseCode.slow, 'too slow'));
    const heartbeat = setInterval(() => void this.#beat(), service.streams.heartbeatMs);
    const stop = () => this.close(CloseCode.stopping, 'the server is ending');
    service.ending.addEventListener('abort', stop, { once: true });
    socket.on('ping', (data) => this.#pong(data));
    socket.on('pong', () => {
      this.heard();
      if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    });
    // What is no WebSocket frame, or too large; the socket closes itself.
    socket.on('error', (error) => log.debug({ reason: error.message }, 'websocket'));
    socket.once('close', (code) => {
      clearInterval(heartbeat);
      service.ending.removeEventListener('abort', stop);
      this.#over.abort();
      options.onClosed(code);
    });
    if (service.ending.aborted) stop();
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
    this.#pulse.heard();
  }

  /** Whether it may still be here; it is closed where it may not. */
  async check(): Promise<boolean> {
    if (await refusalOf(this.#options.recheck)) this.close(CloseCode.refused, 'the token is no longer good');
    return !this.over.aborted;
  }

  /** Only to those who read: pongs that nobody takes would pile up. */
  #pong(data: Buffer): void {
    this.heard();
    if (!this.budget.control()) this.close(CloseCode.tooMuch, 'too many frames');
    else if (this.outbox.hasRoom) this.#socket.pong(data);
  }

  async #beat(): Promise<void> {
    // What has arrived while this process was busy is read first.
    await new Promise((resolve) => setImmediate(resolve));
    if (this.over.aborted) return;
    const todo = this.#pulse.beat({ room: this.outbox.hasRoom, listening: !this.#socket.isPaused });
    // It has not read the last ping, or is no longer there.
    if (todo === 'let go') return this.close(CloseCode.slow, 'too slow');
    if (todo === 'ask') this.#socket.ping();
    await this.check();
  }
}

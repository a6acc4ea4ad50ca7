/** What goes out to one client on a WebSocket: as fast as it reads, and bounded where it does not. */

import { setTimeout as delay } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import type { TerminalServerFrame } from '../../protocol/api/execution-routes.ts';
import type { ServerFrame } from '../../protocol/api/socket-frames.ts';
import type { FeedItem } from '../../protocol/session-events.ts';
import { eventText } from './event-text.ts';
import type { StreamLimits } from './service.ts';

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
  get hasRoom(): boolean {
    return this.#socket.bufferedAmount <= this.#limits.bufferBytes;
  }

  /** Resolves when there is room for more. */
  put(frame: ServerFrame | FeedItem | TerminalServerFrame): Promise<void> {
    return this.#send('seq' in frame ? eventText(frame) : JSON.stringify(frame));
  }

  /** The same for a frame of bytes. */
  bytes(chunk: Uint8Array): Promise<void> {
    return this.#send(chunk);
  }

  async #send(data: string | Uint8Array): Promise<void> {
    if (this.#over.aborted) return;
    const sent = Promise.withResolvers<void>();
    this.#socket.send(data, () => sent.resolve());
    if (!this.hasRoom) await this.#taken(sent.promise);
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

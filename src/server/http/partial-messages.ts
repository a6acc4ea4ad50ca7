/** Bounds the memory of WebSocket messages that have begun and not ended. */

import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { systemCode } from '../../lib/values.ts';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import type { ByteReservation } from '../request-limits.ts';
import type { ReportRefusal } from './server-context.ts';
import { closeSocket } from './socket-connection.ts';

/** Approximate overhead per piece, however small it is. */
const PIECE_BYTES = 512;
const HEAD_BYTES = 2;
const MASK_BYTES = 4;

export class PartialMessages {
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
  const messages = new PartialMessages();
  const count = (piece: Buffer) => {
    try {
      hold.resize(messages.after(piece));
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

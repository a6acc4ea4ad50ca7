/**
 * What a WebSocket holds of a message that has not come to its end. It is counted by the heads of frames (RFC 6455) as the
 * bytes come, and not by what the library says: that tells of a message once all of it is in memory.
 */

import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import type { ByteReservation } from '../request-limits.ts';

/** About what each piece takes beside its bytes, however few these are. */
const PIECE_BYTES = 512;
/** How long the other side has to hear why it is closed. */
const CLOSING_MS = 5000;
const HEAD_BYTES = 2;
const MASK_BYTES = 4;

export class Unfinished {
  readonly #head = Buffer.alloc(HEAD_BYTES + 8 + MASK_BYTES);
  #headHas = 0;
  /** What is still to come of a frame, after its head. */
  #left = 0;
  /** Whether more frames of a message are to come. */
  #within = false;
  #held = 0;

  /** What is held once this has come, too. A piece is held as a whole while anything of it is. */
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

  /** Whether all of it is there: then it is known what follows. */
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
    // Pings and pongs may come between the parts of a message.
    if ((first & 0x0f) >= 8) return;
    this.#within = (first & 0x80) === 0;
    if (!this.#within) this.#held = 0;
  }
}

/** Closes it where there is no room for more of a message; what has come of others is not touched. */
export function limitPartialMessages(client: WebSocket, connection: Duplex, hold: ByteReservation): void {
  const unfinished = new Unfinished();
  const count = (piece: Buffer) => {
    try {
      hold.resize(unfinished.after(piece));
    } catch {
      client.close(CloseCode.tooMuch, 'messages without an end hold too much');
      // Nothing more is kept of what it sends, and it need not agree.
      connection.removeAllListeners('data');
      connection.resume();
      connection.end();
      setTimeout(() => client.terminate(), CLOSING_MS).unref();
    }
  };
  connection.prependListener('data', count);
  // From then on nothing is read any more, and nothing held.
  client.once('error', () => {
    connection.off('data', count);
    hold[Symbol.dispose]();
  });
  client.once('close', () => hold[Symbol.dispose]());
}

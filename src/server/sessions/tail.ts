/** The newest events of a session, in memory for those who read along: bounded, and without a gap. */

import type { SessionEvent } from '../../protocol/session-events.ts';

const MOST_EVENTS = 2048;
const MOST_BYTES = 1024 * 1024;

export class Tail {
  #events: { readonly event: SessionEvent; readonly size: number }[] = [];
  #bytes = 0;

  push(event: SessionEvent, size: number): void {
    this.#events.push({ event, size });
    this.#bytes += size;
    if (this.#events.length <= MOST_EVENTS && this.#bytes <= MOST_BYTES) return;
    // By the half, so that it costs little for each.
    const most = this.#bytes > MOST_BYTES ? MOST_BYTES / 2 : this.#bytes;
    let from = Math.max(0, this.#events.length - MOST_EVENTS / 2);
    this.#bytes = this.#events.slice(from).reduce((total, one) => total + one.size, 0);
    while (this.#bytes > most && from < this.#events.length) this.#bytes -= this.#events[from++]?.size ?? 0;
    this.#events = this.#events.slice(from);
  }

  /** Those after this number, or undefined where some of them are only in the log. */
  after(seq: number): readonly { readonly event: SessionEvent }[] | undefined {
    const first = this.#events[0]?.event.seq;
    if (first === undefined || seq + 1 < first) return undefined;
    return this.#events.slice(seq + 1 - first);
  }

  /** What is gone from the log is gone from here. */
  forget(floor: number): void {
    const first = this.#events[0]?.event.seq ?? floor + 1;
    const gone = this.#events.splice(0, Math.max(0, floor + 1 - first));
    this.#bytes -= gone.reduce((total, { size }) => total + size, 0);
  }

  clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

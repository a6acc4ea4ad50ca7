/** Events on their way to storage: in order, taken a batch at a time, with a word for who has more than there is room for. */

import type { SessionEventBody } from '../../protocol/session-events.ts';

const BATCH_EVENTS = 500;
const BATCH_BYTES = 1024 * 1024;
/** Past this, whoever has more to write waits. */
const HIGH_WATER = 2 * 1024 * 1024;
/** What an event takes beside its text. */
const EVENT_COST = 128;

export type Stamped = SessionEventBody & { readonly at: number };

export interface Entry {
  readonly event: Stamped;
  /** About what it takes. */
  readonly size: number;
  /** Whether it must survive a loss of power too. */
  readonly flushed: boolean;
  readonly written: PromiseWithResolvers<number> | undefined;
}

export function newEntry(event: SessionEventBody, facts: Partial<Omit<Entry, 'event'>> = {}): Entry {
  const { size = 0, flushed = false, written } = facts;
  return { event: { at: Date.now(), ...event }, size: size + EVENT_COST, flushed, written };
}

export class WriteQueue {
  #entries: Entry[] = [];
  #bytes = 0;
  #room: PromiseWithResolvers<void> | undefined;

  get empty(): boolean {
    return this.#entries.length === 0;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get full(): boolean {
    return this.#bytes > HIGH_WATER;
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
    this.#bytes += entry.size;
  }

  takeBatch(): Entry[] {
    let bytes = 0;
    let count = 0;
    for (const { size } of this.#entries) {
      if (count > 0 && (count === BATCH_EVENTS || bytes + size > BATCH_BYTES)) break;
      bytes += size;
      count++;
    }
    this.#bytes -= bytes;
    return this.#entries.splice(0, count);
  }

  takeAll(): Entry[] {
    this.#bytes = 0;
    return this.#entries.splice(0);
  }

  /** Resolves when it is not full any more: at the next `makeRoom`. */
  async room(): Promise<void> {
    if (!this.full) return;
    this.#room ??= Promise.withResolvers();
    await this.#room.promise;
  }

  makeRoom(): void {
    if (this.full) return;
    this.#room?.resolve();
    this.#room = undefined;
  }
}

/** Keeps the log of a hosted session short, and marks up to where the next start need not read it. */

import type { Definition } from './definition.ts';
import type { EventWriter } from './event-writer.ts';
import { writeMark } from './recovery.ts';
import { retain } from './retention.ts';
import type { HostShare } from './share.ts';

/** How many events there may be after the mark before it is written again. */
const MARK_EVERY = 500;

export interface UpkeepParts {
  readonly share: HostShare;
  readonly writer: EventWriter;
  readonly definition: () => Definition;
  /** Does something when nothing runs, and before anything else begins. */
  readonly between: (work: () => Promise<void>) => Promise<void>;
}

export class Upkeep {
  readonly #parts: UpkeepParts;
  #retaining: Promise<void> | undefined;
  /** How much had been written then. */
  #retainedAt = 0;
  #marked: number;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
    this.#marked = parts.writer.position.last;
  }

  /** Trims the log, the files and the requests. */
  retain(): Promise<void> {
    this.#retaining ??= this.#parts
      .between(() => this.#retain())
      .finally(() => {
        this.#retaining = undefined;
      });
    return this.#retaining;
  }

  async afterExecution(): Promise<void> {
    const { share, writer } = this.#parts;
    const { maxBytes } = share.retention;
    if (maxBytes > 0 && writer.bytes - this.#retainedAt > maxBytes / 4) await this.retain();
    else await this.mark(MARK_EVERY);
  }

  /** Where there are so many events after the mark. */
  async mark(every = 1): Promise<void> {
    const { share, writer, definition } = this.#parts;
    const { position, sound } = writer;
    const open = position.open.length + position.turns.length;
    if (!sound || open > 0 || position.last - this.#marked < every) return;
    this.#marked = position.last;
    await writeMark(share.storage, definition().id, position.last);
  }

  async #retain(): Promise<void> {
    const { share, writer, definition } = this.#parts;
    await writer.settled();
    this.#retainedAt = writer.bytes;
    writer.tail.forget(await retain(share, definition()));
    await this.mark();
  }
}

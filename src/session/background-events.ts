/** Output that belongs to no running cell. The newest is kept for a reader; the oldest is dropped if there is too much. */

import type { BackgroundEvent } from '../protocol/execution-events.ts';

const MOST_BYTES = 1024 * 1024;

export class BackgroundEvents {
  #events: { event: BackgroundEvent; size: number }[] = [];
  #size = 0;
  #wake: (() => void) | undefined;
  #closed = false;

  push(event: BackgroundEvent, size: number): void {
    this.#events.push({ event, size });
    this.#size += size;
    while (this.#size > MOST_BYTES && this.#events.length > 1) this.#size -= this.#events.shift()?.size ?? 0;
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<BackgroundEvent, void, undefined> {
    while (true) {
      const next = this.#events.shift();
      if (next) {
        this.#size -= next.size;
        yield next.event;
      } else if (this.#closed) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}

/** Sends the events of a turn one at a time, in order. While one is on its way, deltas of the same text are joined. */

import type { AgentEvent } from '../protocol/agent-events.ts';

const MOST_WAITING = 64;
const MOST_PIECE = 16_384;

export class EventSender {
  readonly #emit: (event: AgentEvent) => Promise<void>;
  #waiting: AgentEvent[] = [];
  #work: Promise<void> | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(emit: (event: AgentEvent) => Promise<void>) {
    this.#emit = emit;
  }

  /** Resolves when there is room for more; rejects if events are not accepted any more. */
  async send(events: readonly AgentEvent[]): Promise<void> {
    for (const event of events) this.#add(event);
    if (this.#waiting.length > 0) this.#work ??= this.#send();
    if (this.#waiting.length > MOST_WAITING) await this.#work;
    if (this.#failure) throw this.#failure.error;
  }

  async flush(): Promise<void> {
    await this.#work;
    if (this.#failure) throw this.#failure.error;
  }

  #add(event: AgentEvent): void {
    const last = this.#waiting.at(-1);
    const joins =
      event.type === 'item_delta' &&
      last?.type === 'item_delta' &&
      last.item === event.item &&
      last.text.length + event.text.length <= MOST_PIECE;
    if (joins) this.#waiting[this.#waiting.length - 1] = { ...last, text: last.text + event.text };
    else this.#waiting.push(event);
  }

  async #send(): Promise<void> {
    try {
      for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) await this.#emit(next);
    } catch (error) {
      this.#failure = { error };
      this.#waiting = [];
    } finally {
      this.#work = undefined;
    }
  }
}

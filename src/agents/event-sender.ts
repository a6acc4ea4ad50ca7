/** Sends the events of a turn, and truncates what an agent says to sizes that a log can take. */

import type { AgentEvent } from '../protocol/agent-events.ts';

const MOST_WAITING = 64;
const MOST_PIECE = 16_384;

/** Sends one event at a time, in order. While one is on its way, deltas of the same text are joined. */
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

const MOST_TEXT = 65_536;
const MOST_INPUT = 262_144;
const MOST_ID = 200;
/** Levels of a tool's input. With a few thousand levels JSON.parse still works, and JSON.stringify fails. */
const MOST_DEEP = 200;

/** Keeps the beginning and the end, and says how much is left out between them. */
export function truncateText(text: string, most: number = MOST_TEXT): string {
  if (text.length <= most) return text.toWellFormed();
  const half = Math.floor(most / 2);
  const left = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${left} characters left out …\n${text.slice(-half)}`.toWellFormed();
}

export function oneLine(text: string, most: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return (line.length <= most ? line : `${line.slice(0, most - 1)}…`).toWellFormed();
}

/** The input of a tool, if it can be written as JSON. */
export function withoutDepth(input: unknown): unknown {
  return isDeeper(input, MOST_DEEP) ? { cut: `… more than ${MOST_DEEP} levels left out …` } : input;
}

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1));
}

/** Truncates long texts in a tool's input, or the whole input if it is still too long. */
export function truncateInput(input: unknown): unknown {
  const text = JSON.stringify(withoutDepth(input), (_key, value: unknown) =>
    typeof value === 'string' ? truncateText(value) : value,
  );
  if (text === undefined) return undefined;
  return text.length <= MOST_INPUT ? (JSON.parse(text) as unknown) : { cut: truncateText(text) };
}

/** Keeps the end of a long id, where ids of one kind differ. Ids come from the model. */
export function truncateId(id: string): string {
  return id.length <= MOST_ID ? id.toWellFormed() : id.slice(-MOST_ID).toWellFormed();
}

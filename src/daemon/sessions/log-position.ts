/** How far the log of a session is known: its last number, and the executions that have begun in it and not ended. */

import { isEnding, type SessionEventBody } from '../../protocol/http/events.ts';

export class LogPosition {
  last: number;
  readonly #open = new Set<string>();

  constructor(last: number) {
    this.last = last;
  }

  /** Executions without an ending. */
  get open(): readonly string[] {
    return [...this.#open];
  }

  isOpen(execution: string): boolean {
    return this.#open.has(execution);
  }

  /** These events are in the log, the last of them under this number. */
  advance(events: Iterable<SessionEventBody>, last: number): void {
    for (const event of events) this.take(event);
    this.last = last;
  }

  take(event: SessionEventBody): void {
    if (isEnding(event)) this.#open.delete(event.execution);
    // Its beginning may be gone: whatever belongs to it and is no background tells of it too.
    else if ('execution' in event && event.execution && !('background' in event)) this.#open.add(event.execution);
  }
}

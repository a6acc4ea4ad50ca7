/** How far the log of a session is known: its last number, and the executions and turns that have begun and not ended. */

import { isExecutionEnd, type SessionEventBody } from '../../protocol/session-events.ts';

export class LogPosition {
  last: number;
  readonly #open = new Set<string>();
  readonly #turns = new Set<string>();

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

  /** Turns without an ending. */
  get turns(): readonly string[] {
    return [...this.#turns];
  }

  isTurnOpen(turn: string): boolean {
    return this.#turns.has(turn);
  }

  /** These events are in the log, the last of them under this number. */
  advance(events: Iterable<SessionEventBody>, last: number): void {
    for (const event of events) this.take(event);
    this.last = last;
  }

  take(event: SessionEventBody): void {
    if (event.type === 'turn_started') this.#turns.add(event.turn);
    if (event.type === 'turn_ended') this.#turns.delete(event.turn);
    if (isExecutionEnd(event)) this.#open.delete(event.execution);
    // Its beginning may be gone: whatever belongs to it and is no background tells of it too.
    else if ('execution' in event && event.execution && !('background' in event)) this.#open.add(event.execution);
  }
}

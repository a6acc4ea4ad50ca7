/** Reads the log of a session page by page, and checks what always holds of it. */

import { isExecutionEnd, type SessionEvent } from '../../src/protocol/session-events.ts';
import type { Served } from '../support/servers/serve-process.ts';

/** All events after a number. Fails where a number is missing. */
export async function readLog(served: Served, session: string, after = 0, token?: string): Promise<SessionEvent[]> {
  const events: SessionEvent[] = [];
  const options = token === undefined ? {} : { token };
  for (let next = after; ; ) {
    const page = await served.ask<{ events: SessionEvent[]; next: number; last: number }>(
      `GET /v1/sessions/${session}/events?after=${next}&limit=5000`,
      options,
    );
    events.push(...page.events);
    next = page.next;
    if (next >= page.last) break;
  }
  for (const [index, { seq }] of events.entries()) {
    if (seq !== after + index + 1) throw new Error(`${session}: event ${seq} stands where ${after + index + 1} should`);
  }
  return events;
}

/** Every execution that has begun in these has ended once, and nothing of it comes after. Gives the endings. */
export function checkEndings(session: string, events: readonly SessionEvent[]): Map<string, SessionEvent> {
  const open = new Set<string>();
  const endings = new Map<string, SessionEvent>();
  for (const event of events) {
    const { type, seq } = event;
    const execution = 'execution' in event && !('background' in event) ? event.execution : undefined;
    if (execution === undefined) continue;
    if (type === 'execution_started') {
      if (open.has(execution) || endings.has(execution))
        throw new Error(`${session}: ${seq} begins ${execution} again`);
      open.add(execution);
    } else if (!open.has(execution)) {
      throw new Error(`${session}: ${type} at ${seq} belongs to ${execution} that is not running`);
    }
    if (!isExecutionEnd(event)) continue;
    open.delete(execution);
    endings.set(execution, event);
  }
  if (open.size > 0) throw new Error(`${session}: ${[...open].join(', ')} never ended`);
  return endings;
}

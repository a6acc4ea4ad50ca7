/** One reader of a session log: past events from storage, then new ones from memory. */

import { onAbort } from '../../lib/abort.ts';
import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import { isExecutionEnd, type SessionEvent, SessionEventBody, type StreamItem } from '../../protocol/session-events.ts';
import type { EventLog, LoggedEvent } from '../../storage/contract.ts';
import type { SessionEnding } from '../sessions/session-ending.ts';
import type { EventStreamOptions } from '../sessions/session-types.ts';
import type { SessionLog } from './session-log.ts';

const PAGE_EVENTS = 500;

interface EventStreamSource {
  readonly log: EventLog;
  readonly key: string;
  readonly writer: SessionLog;
  /** Why no more events come. The reader gets the error. */
  readonly ending: Pick<SessionEnding, 'why'>;
}

export async function* readEvents(
  { log, key, writer, ending }: EventStreamSource,
  { after = 0, execution, turn, signal }: EventStreamOptions,
): AsyncGenerator<StreamItem, void, undefined> {
  let wake: () => void = () => {};
  const onChange = () => wake();
  const leave = writer.listen(onChange);
  using _ = onAbort(signal, onChange);
  const wanted = (event: SessionEvent) => matchesFilter(event, { execution, turn });
  const over = (event: SessionEvent) =>
    (execution !== undefined && isExecutionEnd(event) && event.execution === execution) ||
    (turn !== undefined && event.type === 'turn_ended' && event.turn === turn);
  const ran = () =>
    (execution !== undefined && !writer.state.isOpen(execution)) ||
    (turn !== undefined && !writer.state.isTurnOpen(turn));
  try {
    let position = after;
    if (position > writer.state.last) throw notYet(position, writer.state.last);
    while (!signal?.aborted) {
      if (position >= writer.state.last) {
        const { why } = ending;
        if (why instanceof CellaError) throw why;
        if (why || ran()) return;
        const { promise, resolve } = Promise.withResolvers<void>();
        wake = resolve;
        if (position >= writer.state.last && !signal?.aborted && !ending.why) await promise;
        continue;
      }
      const before = position;
      for await (const event of since(position, { log, key, writer })) {
        if (signal?.aborted) return;
        // Events that a slow reader has not read may have been deleted.
        if (event.seq > position + 1) yield { type: 'trimmed', throughSeq: event.seq - 1 };
        position = event.seq;
        if (wanted(event)) yield event;
        if (over(event)) return;
      }
      if (position > before) continue;
      if (ending.why === 'deleted') return;
      position = Math.max(position, await log.floor(key));
      if (position === before) throw new CellaError('STORAGE_FAILED', `The log of the session ends at ${position}.`);
      yield { type: 'trimmed', throughSeq: position };
    }
  } finally {
    leave();
  }
}

interface EventFilter {
  readonly execution?: string | undefined;
  readonly turn?: string | undefined;
}

/** Whether it belongs to the execution or turn of the filter. */
export function matchesFilter(event: SessionEvent, { execution, turn }: EventFilter): boolean {
  return (execution === undefined || isPartOf(event, execution)) && (turn === undefined || isOfTurn(event, turn));
}

/** Background output is not part of the execution, though it may be logged before the end. */
function isPartOf(event: SessionEvent, execution: string): boolean {
  return 'execution' in event && event.execution === execution && !('background' in event && event.background);
}

function isOfTurn(event: SessionEvent, turn: string): boolean {
  return 'turn' in event && event.turn === turn;
}

/** From memory if it has them all, else from storage. */
async function* since(
  seq: number,
  { log, key, writer }: Omit<EventStreamSource, 'ending'>,
): AsyncGenerator<SessionEvent> {
  const live = writer.recent.after(seq);
  // Only up to the newest durable event.
  const limit = Math.min(PAGE_EVENTS, writer.state.last - seq);
  if (live) for await (const { event } of inSlices(live)) yield event;
  else for await (const logged of log.read(key, { after: seq, limit })) yield toEvent(logged);
}

/** `at`: when it happened, if the event says so, else when it was written. */
export function toEvent({ seq, at, event }: LoggedEvent): SessionEvent {
  const own = typeof event === 'object' && event !== null && 'at' in event ? Number(event.at) : at;
  const body = SessionEventBody.safeParse(withCurrentNames(event));
  if (body.success) return { seq, at: own, ...body.data };
  throw new CellaError('STORAGE_FAILED', `Event ${seq} of the session cannot be read: ${body.error.message}.`);
}

/** Earlier versions wrote `woken` for `resumed` and `names` for `variables`. */
function withCurrentNames(event: unknown): unknown {
  if (typeof event !== 'object' || event === null) return event;
  if ('woken' in event) return { ...event, resumed: event.woken };
  if ('names' in event) return { ...event, variables: event.names };
  return event;
}

function notYet(after: number, last: number): CellaError {
  return new CellaError('INVALID_REQUEST', `There is no event ${after} yet: the last is ${last}.`, {
    details: { after, last },
  });
}

/** After the server before this one has ended: what waited or ran then is marked as interrupted, once. */

import type { SessionEventBody } from '../../protocol/session-events.ts';
import { isTurnOver } from '../../protocol/turn.ts';
import type { LogState } from '../events/session-log.ts';
import { interrupted, toFailure } from './ending.ts';
import type { TurnRecord, TurnRecords } from './records.ts';

/**
 * A record is finished before its `turn_ended` is written: what has not ended in its record has not ended in the log, and
 * what has may still be open there. Gives the events that the log lacks.
 */
export async function recoverTurns(records: TurnRecords, position: LogState): Promise<SessionEventBody[]> {
  const endings: SessionEventBody[] = [];
  const open = new Set(position.turns);
  for (const record of await records.all()) {
    if (isTurnOver(record)) {
      if (open.delete(record.id)) endings.push(endedEvent(record));
      continue;
    }
    const ended: TurnRecord = {
      ...record,
      status: 'interrupted',
      endedAt: Date.now(),
      error: toFailure(interrupted()),
    };
    await records.put(ended);
    open.delete(record.id);
    endings.push(endedEvent(ended));
  }
  // Somebody has deleted the record: the log tells of it all the same.
  for (const turn of open) endings.push({ type: 'turn_ended', turn, status: 'interrupted' });
  return endings;
}

export function endedEvent({ id, status, usage, error }: TurnRecord): SessionEventBody {
  return {
    type: 'turn_ended',
    turn: id,
    status: status === 'queued' || status === 'running' ? 'interrupted' : status,
    ...(usage === undefined ? {} : { usage }),
    ...(error === undefined ? {} : { error }),
  };
}

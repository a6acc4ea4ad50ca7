/** After a server has ended, however it did: what waited waits on, and what was decided is told. */

import type { SessionLog } from '../events/session-log.ts';
import { type PermissionRecord, type PermissionRecords, requestedEvent, resolvedEvent } from './records.ts';

export interface Recovered {
  /** Nobody has decided them yet. */
  readonly pending: readonly PermissionRecord[];
  /** Decided, and nobody has taken it. */
  readonly untaken: readonly PermissionRecord[];
}

export async function recoverRecords(
  records: PermissionRecords,
  writer: Pick<SessionLog, 'write'>,
): Promise<Recovered> {
  const pending: PermissionRecord[] = [];
  const untaken: PermissionRecord[] = [];
  for (const record of await records.all()) {
    if (record.logged && record.delivered) continue;
    if (record.info.state === 'pending') {
      pending.push(await tellAsked(record, records, writer));
      continue;
    }
    const ended = await tellEnded(record, records, writer);
    if (!ended.delivered) untaken.push(ended);
  }
  return { pending, untaken };
}

/** The server may have ended before anybody could see it. */
async function tellAsked(record: PermissionRecord, records: PermissionRecords, writer: Pick<SessionLog, 'write'>) {
  if (record.told) return record;
  await writer.write(requestedEvent(record.info));
  const told = { ...record, told: true };
  await records.put(told);
  return told;
}

/** An end that is told twice is the same end. */
async function tellEnded(record: PermissionRecord, records: PermissionRecords, writer: Pick<SessionLog, 'write'>) {
  const event = resolvedEvent(record.info);
  if (!record.logged && event) await writer.write(event);
  // Whoever waited for what nobody has decided asks anew.
  const isDecided = ['allowed', 'denied'].includes(record.info.resolution?.outcome ?? '');
  const ended = { ...record, logged: true, delivered: !isDecided };
  await records.put(ended);
  return ended;
}

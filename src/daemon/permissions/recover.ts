/** After a server has ended, however it did: what waited is over, and what was decided is told. */

import type { EventWriter } from '../sessions/event-writer.ts';
import type { PermissionRecord, PermissionRecords } from './records.ts';
import { resolvedEvent } from './told.ts';

const REASON = 'the server ended while it waited';

/** Gives those that were decided and that nobody has taken. */
export async function recoverRecords(
  records: PermissionRecords,
  writer: Pick<EventWriter, 'write'>,
): Promise<PermissionRecord[]> {
  const untaken: PermissionRecord[] = [];
  for (const record of await records.all()) {
    if (record.logged && record.delivered) continue;
    const ended = record.info.state === 'resolved' ? record : cancelled(record);
    if (!record.logged) {
      await records.put(ended);
      await tell(ended, writer);
    }
    // Whoever waited for what nobody has decided asks anew.
    const decided = ['allowed', 'denied'].includes(ended.info.resolution?.outcome ?? '');
    await records.put({ ...ended, logged: true, delivered: !decided });
    if (decided) untaken.push({ ...ended, logged: true });
  }
  return untaken;
}

function cancelled(record: PermissionRecord): PermissionRecord {
  const resolution = { outcome: 'cancelled', reason: REASON, at: Date.now() } as const;
  return { ...record, info: { ...record.info, state: 'resolved', resolution } };
}

/** An end that is told twice is the same end; a request of which nothing was told is told with it. */
async function tell({ info }: PermissionRecord, writer: Pick<EventWriter, 'write'>): Promise<void> {
  const { id, turn, tool, summary, resolution } = info;
  const event = resolvedEvent(info);
  if (!event) return;
  await writer.write(event);
  if (turn === undefined || resolution?.outcome !== 'cancelled') return;
  const what = `${tool}: ${summary.slice(0, 200).toWellFormed()}`;
  await writer.write({ type: 'agent_notice', turn, text: `Nobody decided on ${id} (${what}): ${REASON}.` });
}

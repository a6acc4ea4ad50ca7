/** The course of one request: in storage before it is told, and its end in storage and in the log before anybody acts on it. */

import type { PermissionInfo } from '../../protocol/api/agent-routes.ts';
import type { SessionLog } from '../events/session-log.ts';
import { type PermissionRecord, type PermissionRecords, requestedEvent, resolvedEvent } from './records.ts';
import type { Waiting } from './waiting.ts';

export interface Books {
  readonly records: PermissionRecords;
  readonly writer: Pick<SessionLog, 'write'>;
}

/** Told again where another asks for it: whoever follows that turn sees it there. */
export async function tellAsked({ records, writer }: Books, waiting: Waiting): Promise<void> {
  await records.put(recordOf(waiting, { told: false }));
  await writer.write(requestedEvent(waiting.info));
  await records.put(recordOf(waiting, { told: true }));
}

/** `onUntaken` is told, without a pause after it is known, that nobody waits for the decision. */
export async function conclude(
  { records, writer }: Books,
  waiting: Waiting,
  onUntaken: (record: PermissionRecord) => void,
): Promise<void> {
  const resolution = await waiting.decided;
  // What is told of its end comes after what is told of its beginning.
  await waiting.telling;
  if (!resolution) return waiting.finish(waiting.info);
  const over: PermissionInfo = { ...waiting.info, state: 'resolved', resolution };
  const record = { ...recordOf(waiting, { told: true }), info: over };
  await records.put(record);
  const event = resolvedEvent(over);
  if (event) await writer.write(event);
  const isUntaken = waiting.isLeft && (resolution.outcome === 'allowed' || resolution.outcome === 'denied');
  const ended = { ...record, logged: true, delivered: !isUntaken };
  if (isUntaken) onUntaken(ended);
  await records.put(ended);
  waiting.finish(over);
}

function recordOf({ info, request }: Waiting, { told }: { readonly told: boolean }): PermissionRecord {
  return { info, ...(request === undefined ? {} : { request }), told, logged: false, delivered: false };
}

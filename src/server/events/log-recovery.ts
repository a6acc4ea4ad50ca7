/**
 * Completes the log of a session after the previous server ended or crashed: marks what ran then as interrupted, once. The
 * recovery position in storage is the number of an event before which nothing is left unfinished.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import type { Storage } from '../../storage/contract.ts';
import type { IdempotencyRecord, IdempotencyStore } from '../sessions/idempotency.ts';
import { recoverTurns, TurnRecords } from '../turns/turn-records.ts';
import { toEvent } from './event-stream.ts';
import { LogState } from './session-log.ts';

const MARKS = 'session-marks';
const REASON = 'The server ended while the code was running. It does not run again.';

interface RecoveredLog {
  readonly position: LogState;
  /** How many executions were marked as interrupted. */
  readonly interrupted: number;
}

export async function recoverLog(
  { events, documents }: Pick<Storage, 'events' | 'documents'>,
  {
    key,
    sessionId,
    requests,
  }: { readonly key: string; readonly sessionId: string; readonly requests: IdempotencyStore },
): Promise<RecoveredLog> {
  const position = new LogState(await events.last(key));
  const mark = await readRecoveryPosition(documents, sessionId);
  // The key may have been deleted without a server: its log then starts again.
  const after = mark > position.last ? 0 : mark;
  const asked = new Map<string, { readonly name: string; readonly firstSeq: number }>();
  for await (const logged of events.read(key, { after })) {
    const event = toEvent(logged);
    position.take(event);
    if (event.type !== 'execution_started' || event.request === undefined) continue;
    asked.set(event.execution, { name: event.request, firstSeq: event.seq });
  }
  const endings: SessionEventBody[] = [];
  for (const execution of position.open) {
    const by = asked.get(execution);
    const request = by && (await requests.get(by.name));
    endings.push(await endingOf(execution, request, requests));
    if (by && request && request.execution === execution && !request.outcome) {
      const lost = new CellaError('EXECUTION_LOST', REASON, { details: { execution } });
      await requests.finish(by.name, { ...request, firstSeq: by.firstSeq }, lost);
    }
  }
  endings.push(...(await recoverTurns(new TurnRecords(documents, sessionId), position)));
  if (endings.length > 0) position.advance(endings, await events.append(key, endings));
  if (position.last > after) await writeRecoveryPosition({ documents }, sessionId, position.last);
  return { position, interrupted: endings.filter(({ type }) => type === 'interrupted').length };
}

/** A request gets its result before the log gets the end of the execution: if the server ended between them, it is known. */
async function endingOf(
  execution: string,
  request: IdempotencyRecord | undefined,
  requests: IdempotencyStore,
): Promise<SessionEventBody> {
  const known = request?.execution === execution && request.outcome && !('error' in request.outcome);
  // The result may be in a file on another machine.
  const result = known ? await requests.result(request).catch(() => undefined) : undefined;
  if (!result) return { type: 'interrupted', execution, reason: REASON };
  const { stdout, stderr, displays, files, ...facts } = result;
  return { type: 'result', execution, ...facts };
}

/** Every execution and turn that started before this event has ended. */
export async function writeRecoveryPosition(
  { documents }: Pick<Storage, 'documents'>,
  sessionId: string,
  seq: number,
): Promise<void> {
  await documents.put(MARKS, sessionId, { seq });
}

export async function deleteRecoveryPosition(
  { documents }: Pick<Storage, 'documents'>,
  sessionId: string,
): Promise<void> {
  await documents.delete(MARKS, sessionId);
}

async function readRecoveryPosition(documents: Storage['documents'], sessionId: string): Promise<number> {
  const value = (await documents.get(MARKS, sessionId))?.value;
  return typeof value === 'object' && value !== null && 'seq' in value ? Number(value.seq) : 0;
}

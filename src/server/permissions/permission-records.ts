/** The permissions of one session in storage and in the log, and their recovery after a restart. */

import { z } from 'zod';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import { PermissionInfo } from '../../protocol/permission.ts';
import { Collection } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import type { SessionLog } from '../events/session-log.ts';

const COLLECTION = 'permissions';
/** Resolved permissions kept per session; the oldest are deleted first. */
const MOST_OVER = 100;

/**
 * `request` is a digest of the request. `told`: the request is in the log. `logged`: its end is in the log. `delivered`: the
 * asker has got the decision.
 */
const PermissionRecord = z.object({
  info: PermissionInfo,
  request: z.string().optional(),
  told: z.boolean().default(false),
  logged: z.boolean(),
  delivered: z.boolean(),
});
export type PermissionRecord = z.output<typeof PermissionRecord>;
/** `request`: a digest of the request. The same request has the same digest. */
export type AskedPermission = Pick<PermissionRecord, 'info' | 'request'>;

export class PermissionRecords {
  readonly #records: Collection<PermissionRecord>;
  readonly #session: string;

  constructor(documents: DocumentStore, session: string) {
    this.#records = new Collection(documents, COLLECTION, PermissionRecord);
    this.#session = session;
  }

  async put(record: PermissionRecord): Promise<void> {
    await this.#records.put(this.#id(record.info.id), record);
  }

  /** Throws `NOT_FOUND`. */
  async get(id: string): Promise<PermissionRecord> {
    const found = await this.#records.get(this.#id(id));
    if (found) return found.value;
    throw new CellaError('NOT_FOUND', `The session has no permission ${JSON.stringify(id.slice(0, 100))}.`, {
      advice: 'List pending requests with `cella permissions list`, or GET /v1/sessions/:id/permissions.',
    });
  }

  /** Oldest first. */
  all(): Promise<PermissionRecord[]> {
    return this.#records.list(this.#id(''));
  }

  async prune(): Promise<void> {
    const over = (await this.all()).filter(({ info }) => info.state === 'resolved');
    for (const { info } of over.slice(0, Math.max(0, over.length - MOST_OVER))) {
      await this.#records.delete(this.#id(info.id));
    }
  }

  async deleteAll(): Promise<void> {
    await this.#records.deleteAll(this.#id(''));
  }

  #id(permission: string): string {
    return `${this.#session}/${permission}`;
  }
}

type Requested = Extract<AgentLogEvent, { type: 'permission_requested' | 'question' }>;
type ResolvedEvent = Extract<AgentLogEvent, { type: 'permission_resolved' }>;

export function requestedEvent(info: PermissionInfo): Requested {
  const { id, turn, question, tool, summary } = info;
  if (question && turn !== undefined) return { type: 'question', id, turn, ...question };
  const { execution, item, input, recipe, pattern, exactly, expiresAt } = info;
  const more = { item, input, recipe, pattern, exactly, expiresAt };
  return { type: 'permission_requested', id, turn, execution, tool, summary, ...more };
}

/** Undefined while it is pending. */
export function resolvedEvent({ id, turn, execution, resolution }: PermissionInfo): ResolvedEvent | undefined {
  if (!resolution) return undefined;
  const { at, outcome, ...more } = resolution;
  return { type: 'permission_resolved', id, outcome, turn, execution, ...more };
}

/** The notice for a turn that claims an earlier decision. */
export function claimedText({ id, tool, summary, resolution }: PermissionInfo): string {
  const { outcome = 'cancelled', by = 'somebody' } = resolution ?? {};
  const what = `${tool}: ${summary.slice(0, 200).toWellFormed()}`;
  return `Nobody is asked again: ${id} (${what}) was ${outcome} by ${by} after the server had restarted.`;
}

interface RecoveredPermissions {
  /** Not decided yet. */
  readonly pending: readonly PermissionRecord[];
  /** Decided, but the asker never got it. */
  readonly unclaimed: readonly PermissionRecord[];
}

export async function recoverPermissions(
  records: PermissionRecords,
  writer: Pick<SessionLog, 'write'>,
): Promise<RecoveredPermissions> {
  const pending: PermissionRecord[] = [];
  const unclaimed: PermissionRecord[] = [];
  for (const record of await records.all()) {
    if (record.logged && record.delivered) continue;
    if (record.info.state === 'pending') {
      // The server may have ended before the request was in the log.
      pending.push(record.told ? record : await logRequest(record, records, writer));
      continue;
    }
    await announceResolved(record, { records, writer }, (ended) => unclaimed.push(ended));
  }
  return { pending, unclaimed };
}

/** Writes the request to the log, and records that. */
async function logRequest(
  record: PermissionRecord,
  records: PermissionRecords,
  writer: Pick<SessionLog, 'write'>,
): Promise<PermissionRecord> {
  await writer.write(requestedEvent(record.info));
  const announced = { ...record, told: true };
  await records.put(announced);
  return announced;
}

/**
 * Writes the resolution to the log, and records that. Writing the same resolution twice does no harm. `onUnclaimed` is called
 * synchronously if no asker waits for the decision: the next one finds it.
 */
export async function announceResolved(
  record: PermissionRecord,
  { records, writer }: RecordsAndLog,
  onUnclaimed: (record: PermissionRecord) => void,
  hasAsker: () => boolean = () => false,
): Promise<void> {
  const event = resolvedEvent(record.info);
  if (!record.logged && event) await writer.write(event);
  // Only real decisions are kept for the next asker.
  const isDecided = ['allowed', 'denied'].includes(record.info.resolution?.outcome ?? '');
  const ended = { ...record, logged: true, delivered: !isDecided || hasAsker() };
  if (!ended.delivered) onUnclaimed(ended);
  await records.put(ended);
}

export interface RecordsAndLog {
  readonly records: PermissionRecords;
  readonly writer: Pick<SessionLog, 'write'>;
}

/** Writes the request to the log. Repeated for a new asker, so that it appears in that turn. */
export async function announceRequest({ records, writer }: RecordsAndLog, requested: AskedPermission): Promise<void> {
  const record = recordOf(requested, { isAnnounced: false });
  await records.put(record);
  await logRequest(record, records, writer);
}

export function recordOf(
  { info, request }: AskedPermission,
  { isAnnounced }: { readonly isAnnounced: boolean },
): PermissionRecord {
  return { info, request, told: isAnnounced, logged: false, delivered: false };
}

/**
 * The permissions of one session: pending ones with their decision and timeout, their records in storage and log events,
 * and their recovery after a restart.
 */

import { z } from 'zod';
import { onAbort } from '../../lib/abort.ts';
import type { AgentLogEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import { PermissionInfo, type Resolution } from '../../protocol/permission.ts';
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
type PermissionRecord = z.output<typeof PermissionRecord>;

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
async function announceResolved(
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

export class PendingPermission {
  /** A digest of the request: the same request has the same digest. */
  readonly request: string | undefined;
  readonly #decided = Promise.withResolvers<Resolution | undefined>();
  readonly #written = Promise.withResolvers<PermissionInfo>();
  #info: PermissionInfo;
  #isOrphaned: boolean;
  #announced: Promise<void> = Promise.resolve();
  #isKept = false;
  #isOver = false;

  constructor({ info, request }: Pick<PermissionRecord, 'info' | 'request'>, { isOrphaned = false } = {}) {
    this.#info = info;
    this.request = request;
    this.#isOrphaned = isOrphaned;
    this.#written.promise.catch(() => {}); // the asker and the decider get the error
    this.#decided.promise.catch(() => {}); // a request that was not announced has no decision
  }

  get info(): PermissionInfo {
    return this.#info;
  }

  /** Whether the asker ended with an earlier server. */
  get isOrphaned(): boolean {
    return this.#isOrphaned;
  }

  /** Resolves when the announcement is written, or has failed. */
  get announced(): Promise<void> {
    return this.#announced;
  }

  /** Undefined if it is left to the next server. */
  get decided(): Promise<Resolution | undefined> {
    return this.#decided.promise;
  }

  /** Resolves when it is in storage and in the log. */
  get written(): Promise<PermissionInfo> {
    return this.#written.promise;
  }

  /** False if it is resolved already. Synchronous, so that only one decision counts. */
  resolve(resolution: Omit<Resolution, 'at'>, before: Promise<unknown> = Promise.resolve()): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#decided.resolve(before.then(() => ({ ...resolution, at: Date.now() })));
    return true;
  }

  /** The asker is gone. False if the request is resolved already. */
  cancel(reason: string): boolean {
    if (!this.#isKept || this.#isOver) return this.resolve({ outcome: 'cancelled', reason });
    this.#isOver = true;
    this.#decided.resolve(undefined);
    return true;
  }

  /** The server is shutting down: from now on the request is left pending instead of cancelled. */
  keepForNextServer(): void {
    this.#isKept = true;
  }

  /** A new asker waits for it. */
  attach(asker: Pick<PermissionInfo, 'turn' | 'item' | 'execution'>): void {
    this.#isOrphaned = false;
    this.#info = { ...this.#info, ...asker };
  }

  /** If the announcement fails, a new request fails and an orphaned one stays orphaned. */
  async announce(work: () => Promise<void>, { isAttached }: { readonly isAttached: boolean }): Promise<void> {
    const announced = work();
    this.#announced = announced.catch(() => {}); // thrown below
    try {
      await announced;
    } catch (error) {
      if (isAttached) this.#isOrphaned = true;
      else this.fail(error);
      throw error;
    }
  }

  finish(info: PermissionInfo): void {
    this.#written.resolve(info);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#decided.reject(error);
    this.#written.reject(error);
  }

  /** Cancels it when the signal aborts. */
  cancelOn(signal: AbortSignal): Disposable {
    return onAbort(signal, () => this.cancel('nobody waits for it any more'));
  }

  /** Ends it as `timed_out` at `expiresAt`. */
  startTimeout(): Disposable {
    const { requestedAt, expiresAt } = this.#info;
    if (expiresAt === undefined) return { [Symbol.dispose]: () => {} };
    const reason = `nobody answered within ${(expiresAt - requestedAt) / 1000} s`;
    const late = () => this.resolve({ outcome: 'timed_out', reason });
    const timer = setTimeout(late, Math.max(0, expiresAt - Date.now()));
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  }
}

export interface RecordsAndLog {
  readonly records: PermissionRecords;
  readonly writer: Pick<SessionLog, 'write'>;
}

/** Writes the request to the log. Repeated for a new asker, so that it appears in that turn. */
export async function announceRequest({ records, writer }: RecordsAndLog, waiting: PendingPermission): Promise<void> {
  const record = recordOf(waiting, { isAnnounced: false });
  await records.put(record);
  await logRequest(record, records, writer);
}

/** `onUnclaimed` is called synchronously if no asker waits for the decision. */
export async function recordDecision(
  recordsAndLog: RecordsAndLog,
  waiting: PendingPermission,
  onUnclaimed: (record: PermissionRecord) => void,
): Promise<void> {
  const resolution = await waiting.decided;
  // The log has the request before its resolution.
  await waiting.announced;
  if (!resolution) return waiting.finish(waiting.info);
  const over: PermissionInfo = { ...waiting.info, state: 'resolved', resolution };
  const record = { ...recordOf(waiting, { isAnnounced: true }), info: over };
  await recordsAndLog.records.put(record);
  await announceResolved(record, recordsAndLog, onUnclaimed, () => !waiting.isOrphaned);
  waiting.finish(over);
}

function recordOf(
  { info, request }: PendingPermission,
  { isAnnounced }: { readonly isAnnounced: boolean },
): PermissionRecord {
  return { info, request, told: isAnnounced, logged: false, delivered: false };
}

export class UnclaimedDecisions {
  readonly #records: PermissionRecords;
  /** How long a decision stays valid: as long as such a request may wait. 0 means no limit. */
  readonly #validMs: (info: PermissionInfo) => number;
  readonly #decisions = new Set<PermissionRecord>();

  constructor(records: PermissionRecords, validMs: (info: PermissionInfo) => number) {
    this.#records = records;
    this.#validMs = validMs;
  }

  add(record: PermissionRecord): void {
    if (record.request !== undefined) this.#decisions.add(record);
  }

  /** Removed synchronously, so that only one asker gets it. Resolves when storage has that. */
  claim(request: string): Promise<PermissionInfo> | undefined {
    const record = [...this.#decisions].find((one) => one.request === request);
    if (!record) return undefined;
    this.#decisions.delete(record);
    const { info } = record;
    const taken = this.#records.put({ ...record, delivered: true }).then(() => info);
    const [validMs, age] = [this.#validMs(info), Date.now() - (info.resolution?.at ?? 0)];
    if (validMs === 0 || age < validMs) return taken;
    void taken.catch(() => {}); // the next server finds that it has expired
    return undefined;
  }

  /** Discards decisions that no asker will request again. */
  async discard(which: (info: PermissionInfo) => boolean): Promise<void> {
    const all = [...this.#decisions].filter(({ info }) => which(info));
    for (const record of all) this.#decisions.delete(record);
    await Promise.all(all.map((record) => this.#records.put({ ...record, delivered: true })));
  }
}

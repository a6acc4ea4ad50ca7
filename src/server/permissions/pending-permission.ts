/** Permission requests in memory: pending ones with their decision and timeout, and decisions that no asker has got. */

import { onAbort } from '../../lib/abort.ts';
import type { PermissionInfo, Resolution } from '../../protocol/permission.ts';
import {
  type AskedPermission,
  announceResolved,
  type PermissionRecord,
  type PermissionRecords,
  type RecordsAndLog,
  recordOf,
} from './permission-records.ts';

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

  constructor({ info, request }: AskedPermission, { isOrphaned = false } = {}) {
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

export class UnclaimedDecisions {
  readonly #records: PermissionRecords;
  /** A decision stays valid as long as its request may wait. 0 means no limit. */
  readonly #validMs: (info: PermissionInfo) => number;
  readonly #decisions = new Set<PermissionRecord>();

  constructor(records: PermissionRecords, validMs: (info: PermissionInfo) => number) {
    this.#records = records;
    this.#validMs = validMs;
  }

  add(record: PermissionRecord): void {
    if (record.request !== undefined) this.#decisions.add(record);
  }

  /** Removes it synchronously, so that only one asker gets it. Resolves when storage records that. */
  claim(request: string): Promise<PermissionInfo> | undefined {
    const record = [...this.#decisions].find((one) => one.request === request);
    if (!record) return undefined;
    this.#decisions.delete(record);
    const { info } = record;
    const taken = this.#records.put({ ...record, delivered: true }).then(() => info);
    const [validMs, age] = [this.#validMs(info), Date.now() - (info.resolution?.at ?? 0)];
    if (validMs === 0 || age < validMs) return taken;
    void taken.catch(() => {}); // the next server checks the age again
    return undefined;
  }

  /** Discards decisions that no asker will request again. */
  async discard(which: (info: PermissionInfo) => boolean): Promise<void> {
    const all = [...this.#decisions].filter(({ info }) => which(info));
    for (const record of all) this.#decisions.delete(record);
    await Promise.all(all.map((record) => this.#records.put({ ...record, delivered: true })));
  }
}

/** The stored part of one session: the lock on its key, its record, its cell history and its durable checkpoints. */

import { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { HistoryEntry, Manifest } from '../protocol/kernel-state.ts';
import type { Lock, RecordStore, Storage } from '../storage/contract.ts';
import { boundHistory, type SessionRecord } from '../storage/session-record.ts';
import type { CheckedOptions } from './session-options.ts';
import { type AcquiredStorage, acquireStorage } from './shared-resources.ts';

const MB = 1024 * 1024;
/** A caller that opens a session is about to run code, which goes before writing the record. */
const WRITE_AFTER_MS = 10;

interface StoredSessionParts {
  readonly agentKey: string;
  readonly storage: Storage;
  /** Undefined if the storage was fenced by the key's lock, which stays with its owner. */
  readonly lock: Lock | undefined;
  readonly durableCheckpoints: DurableCheckpoints;
  readonly acquired: AcquiredStorage;
}

interface StoredSessionSettings {
  readonly workspaceOf?: string;
  /** Ignores the key's earlier data. */
  readonly empty?: boolean;
}

/** The location of its storage. */
interface SessionLocation {
  readonly given: Storage | undefined;
  readonly dataDir: string;
}

export class StoredSession {
  readonly #parts: StoredSessionParts | undefined;
  readonly #record: SessionRecord;
  readonly #history: CellHistory;
  readonly #location: SessionLocation;
  #writing: Promise<void> = Promise.resolve();
  #closed = false;
  #cwd: string | undefined;

  private constructor(parts: StoredSessionParts | undefined, record: SessionRecord, location: SessionLocation) {
    this.#location = location;
    this.#parts = parts;
    this.#record = record;
    this.#history = new CellHistory(record.history);
  }

  /** Takes the lock on the key, if the storage was not fenced by it. Throws `KEY_BUSY` if another has it. */
  static async open(
    options: CheckedOptions,
    dataDir: string,
    settings: StoredSessionSettings = {},
  ): Promise<StoredSession> {
    const { agentKey } = options;
    const now = Date.now();
    const blank: SessionRecord = {
      ...{ agentKey, createdAt: now, updatedAt: now, lastUsedAt: now, executions: 0, state: 'live', history: [] },
      workspaceOf: settings.workspaceOf,
    };
    const location = { given: options.storage, dataDir };
    if (!options.persist) return new StoredSession(undefined, blank, location);
    const acquired = acquireStorage(options.storage, dataDir);
    let lock: Lock | undefined;
    try {
      const storage = await acquired.resource;
      if (storage.lock?.key !== agentKey) {
        await releaseStuckLock(lockName(location, agentKey));
        lock = await storage.locks.acquire(agentKey);
      }
      // If another process takes over the key, this one can no longer write.
      const own = lock ? storage.fenced(lock) : storage;
      const durableCheckpoints = new DurableCheckpoints(own.checkpoints, agentKey, {
        limitBytes: options.checkpointLimitMb * MB,
        seconds: options.checkpointTimeoutMs / 1000,
        clock: Date.now,
      });
      const known = settings.empty ? undefined : await own.records.get(agentKey);
      const record = known ? { ...known, state: 'live' as const, lastUsedAt: now } : blank;
      return new StoredSession({ agentKey, storage: own, lock, durableCheckpoints, acquired }, record, location);
    } catch (error) {
      // Retried later if storage cannot even release the lock.
      await releaseWithRetry({ key: lockName(location, agentKey), lock, acquired }).catch(() => {});
      throw error;
    }
  }

  get durableCheckpoints(): DurableCheckpoints | undefined {
    return this.#parts?.durableCheckpoints;
  }

  /** The agent key whose workspace it shares. */
  get workspaceOf(): string | undefined {
    return this.#record.workspaceOf;
  }

  get history(): readonly HistoryEntry[] {
    return this.#history.all;
  }

  /** The record has the newest of them. */
  addCell(entry: HistoryEntry): void {
    this.#history.add(entry);
  }

  /** The code begins in this folder. */
  setCwd(cwd: string): void {
    if (this.#record.cwd !== undefined && this.#record.cwd !== cwd) this.durableCheckpoints?.ignoreSavedCwd();
    this.#cwd = cwd;
  }

  /** Schedules a write of the record. The caller does not wait for it. */
  opened(pid: number): void {
    setTimeout(() => {
      if (!this.#closed) this.#write({ pid, state: 'live' });
    }, WRITE_AFTER_MS).unref();
  }

  saved({ id, createdAt, execution }: Manifest): void {
    // Set only now: a session that never opens, or saves nothing, must not change the folder of the last save.
    const begun = this.#cwd === undefined ? {} : { cwd: this.#cwd };
    this.#write({ lastSave: { id, at: createdAt }, executions: execution, ...begun });
  }

  /** `executions` is the total number. */
  async close(executions: number): Promise<void> {
    const parts = this.#parts;
    // The lock ended with the storage, which contains what was written.
    if (!parts || parts.acquired.closed) return;
    this.#closed = true;
    this.#write({ state: 'hibernated', executions });
    try {
      await this.#writing;
    } finally {
      await this.releaseLock();
    }
  }

  /** Releases the key without writing: for a session that did not open. */
  async releaseLock(): Promise<void> {
    if (!this.#parts) return;
    const { agentKey, lock, acquired } = this.#parts;
    await releaseWithRetry({ key: lockName(this.#location, agentKey), lock, acquired });
  }

  /**
   * Call after `close`. Deletes everything of this key; `remove` deletes its files, and gets the remaining records, if
   * any are kept. Throws `KEY_BUSY` if another has the key.
   */
  async deleteAll(remove: (records: RecordStore | undefined) => Promise<void>): Promise<void> {
    const acquired = acquireStorage(this.#location.given, this.#location.dataDir);
    try {
      const storage = await acquired.resource;
      const { agentKey } = this.#record;
      await using lock = storage.lock?.key === agentKey ? undefined : await storage.locks.acquire(agentKey);
      await (lock ? storage.fenced(lock) : storage).deleteKey(agentKey);
      await remove(this.#parts && storage.records);
    } finally {
      acquired.release();
    }
  }

  #write(change: Partial<SessionRecord>): void {
    const parts = this.#parts;
    if (!parts) return;
    Object.assign(this.#record, change, { updatedAt: Date.now(), lastUsedAt: Date.now() });
    const record = { ...this.#record, history: boundHistory(this.#history.all) };
    // Each record is complete, so it includes what an earlier write failed to store.
    const written = this.#writing.catch(() => {});
    this.#writing = written.then(() => parts.storage.records.put(parts.agentKey, record));
    // `close` throws the error, if this was the last write.
    this.#writing.catch(() => {});
  }
}

const lockName = ({ given, dataDir }: SessionLocation, agentKey: string): string =>
  JSON.stringify([given?.toBootstrapConfig() ?? dataDir, agentKey]);

const RETRY_MS = 1000;

/** By key: releases locks that could not be released when their session ended. */
const stuckLocks = new Map<string, () => Promise<void>>();

interface LockRelease {
  /** One key of one storage. */
  readonly key: string;
  readonly lock: Lock | undefined;
  /** The storage of the lock: it is released after the lock. If it was closed, its locks ended with it. */
  readonly acquired: AcquiredStorage;
}

/** Rejects if storage fails, and keeps trying in the background. */
async function releaseWithRetry({ key, lock, acquired }: LockRelease): Promise<void> {
  // Another session of this key may have left a stuck lock, which is still to be released.
  if (!lock) return acquired.release();
  const release = async () => {
    if (!acquired.closed) await lock.release();
    stuckLocks.delete(key);
    acquired.release();
  };
  try {
    await release();
  } catch (error) {
    stuckLocks.set(key, release);
    retryLater(key, release);
    throw error;
  }
}

/** Call before acquiring the key, which may be blocked only by a stuck lock. */
async function releaseStuckLock(key: string): Promise<void> {
  await stuckLocks.get(key)?.();
}

function retryLater(key: string, release: () => Promise<void>): void {
  const attempt = async () => {
    if (stuckLocks.get(key) !== release) return;
    // The caller who closed the session got the error, and the next caller for the key gets it again.
    await release().catch(() => retryLater(key, release));
  };
  setTimeout(attempt, RETRY_MS).unref();
}

const MOST_CELLS = 1000;
/** The limit for all code together: the largest possible cell fits, a thousand of them do not. */
const MOST_CHARACTERS = 32 * 1024 * 1024;

export class CellHistory {
  /** Up to twice as many as are shown, so that old ones are removed in bulk. */
  #cells: HistoryEntry[];
  #characters = 0;

  constructor(cells: readonly HistoryEntry[]) {
    this.#cells = [...cells];
    for (const { code } of cells) this.#characters += code.length;
  }

  get all(): readonly HistoryEntry[] {
    return this.#cells.slice(-MOST_CELLS);
  }

  add(cell: HistoryEntry): void {
    this.#cells.push(cell);
    this.#characters += cell.code.length;
    if (this.#cells.length > 2 * MOST_CELLS) this.#drop(this.#cells.length - MOST_CELLS);
    if (this.#characters > MOST_CHARACTERS) this.#drop(this.#tooMany());
  }

  /** How many of the oldest to drop. The newest always stays. */
  #tooMany(): number {
    let characters = this.#characters;
    let count = 0;
    while (characters > MOST_CHARACTERS && count < this.#cells.length - 1) {
      characters -= this.#cells[count]?.code.length ?? 0;
      count++;
    }
    return count;
  }

  #drop(count: number): void {
    for (const { code } of this.#cells.splice(0, count)) this.#characters -= code.length;
  }
}

/** What storage keeps of one session: the lock on its key, its record, its cell history and its durable checkpoints. */

import { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { HistoryEntry, Manifest } from '../protocol/kernel-state.ts';
import type { Lock, RecordStore, Storage } from '../storage/contract.ts';
import { boundHistory, type SessionRecord } from '../storage/session-record.ts';
import type { CheckedOptions } from './session-options.ts';
import { type AcquiredStorage, acquireStorage } from './shared-resources.ts';

const MB = 1024 * 1024;
/** The caller who opens a session is about to run code: that comes before the record is written. */
const WRITE_AFTER_MS = 10;

interface StoredSessionParts {
  readonly agentKey: string;
  readonly storage: Storage;
  readonly lock: Lock;
  readonly durableCheckpoints: DurableCheckpoints;
  readonly acquired: AcquiredStorage;
}

interface StoredSessionSettings {
  readonly workspaceOf?: string;
  /** Ignores what the key had before. */
  readonly empty?: boolean;
}

/** Where its storage is found. */
interface StorageLocation {
  readonly given: Storage | undefined;
  readonly dataDir: string;
}

export class StoredSession {
  readonly #parts: StoredSessionParts | undefined;
  readonly #record: SessionRecord;
  readonly #history: CellHistory;
  readonly #location: StorageLocation;
  #writing: Promise<void> = Promise.resolve();
  #closed = false;
  #cwd: string | undefined;

  private constructor(parts: StoredSessionParts | undefined, record: SessionRecord, place: StorageLocation) {
    this.#location = place;
    this.#parts = parts;
    this.#record = record;
    this.#history = new CellHistory(record.history);
  }

  /** Takes the lock on the key. Throws `AGENT_BUSY` if another has it. */
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
    const place = { given: options.storage, dataDir };
    if (!options.persist) return new StoredSession(undefined, blank, place);
    const acquired = acquireStorage(options.storage, dataDir);
    let lock: Lock | undefined;
    try {
      const storage = await acquired.resource;
      await releaseStuckLock(lockName(place, agentKey));
      lock = await storage.locks.acquire(agentKey);
      // If another process takes the key over, nothing more is written from here.
      const own = storage.fenced(lock);
      const durableCheckpoints = new DurableCheckpoints(own.checkpoints, agentKey, {
        limitBytes: options.checkpointLimitMb * MB,
        seconds: options.checkpointTimeoutMs / 1000,
        clock: Date.now,
      });
      const known = settings.empty ? undefined : await own.records.get(agentKey);
      const record = known ? { ...known, state: 'live' as const, lastUsedAt: now } : blank;
      return new StoredSession({ agentKey, storage: own, lock, durableCheckpoints, acquired }, record, place);
    } catch (error) {
      // Retried later if storage cannot even release the lock.
      if (lock) await releaseWithRetry({ key: lockName(place, agentKey), lock, acquired }).catch(() => {});
      else acquired.release();
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

  addCell(entry: HistoryEntry): void {
    this.#history.add(entry);
  }

  /** The code begins in this folder. */
  setCwd(cwd: string): void {
    if (this.#record.cwd !== undefined && this.#record.cwd !== cwd) this.durableCheckpoints?.ignoreSavedCwd();
    this.#cwd = cwd;
  }

  /** Writes the record a little later: the caller does not wait for it. */
  opened(pid: number): void {
    setTimeout(() => {
      if (!this.#closed) this.#write({ pid, state: 'live' });
    }, WRITE_AFTER_MS).unref();
  }

  saved({ id, createdAt, execution }: Manifest): void {
    // Only now: a session that never opens, or saves nothing, leaves the folder of the last save as it was.
    const begun = this.#cwd === undefined ? {} : { cwd: this.#cwd };
    this.#write({ lastSave: { id, at: createdAt }, executions: execution, ...begun });
  }

  /** `executions`: how many there were in all. */
  async close(executions: number): Promise<void> {
    const parts = this.#parts;
    // The lock ended with the storage, which has what was written.
    if (!parts || parts.acquired.closed) return;
    this.#closed = true;
    this.#write({ state: 'hibernated', executions });
    try {
      await this.#writing;
    } finally {
      await this.releaseLock();
    }
  }

  /** Releases the key and writes nothing: for a session that did not open. */
  async releaseLock(): Promise<void> {
    if (!this.#parts) return;
    const { agentKey, lock, acquired } = this.#parts;
    await releaseWithRetry({ key: lockName(this.#location, agentKey), lock, acquired });
  }

  /**
   * Call after `close`. Deletes everything of this key; `remove` deletes its files, and gets the remaining records, if
   * any are kept. Throws `AGENT_BUSY` if another has the key.
   */
  async deleteAll(remove: (records: RecordStore | undefined) => Promise<void>): Promise<void> {
    const acquired = acquireStorage(this.#location.given, this.#location.dataDir);
    try {
      const storage = await acquired.resource;
      await using lock = await storage.locks.acquire(this.#record.agentKey);
      await storage.fenced(lock).deleteAgent(this.#record.agentKey);
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
    // Each record is complete: it includes what could not be written before.
    const written = this.#writing.catch(() => {});
    this.#writing = written.then(() => parts.storage.records.put(parts.agentKey, record));
    // `close` throws the error, if this was the last write.
    this.#writing.catch(() => {});
  }
}

const lockName = ({ given, dataDir }: StorageLocation, agentKey: string): string =>
  JSON.stringify([given?.toBootstrapConfig() ?? dataDir, agentKey]);

const RETRY_MS = 1000;

/** By key: releases a lock that could not be released when its session ended. */
const stuckLocks = new Map<string, () => Promise<void>>();

interface LockRelease {
  /** One key of one storage. */
  readonly key: string;
  readonly lock: Lock;
  /** The storage of the lock: it is released after the lock. If it was closed, its locks ended with it. */
  readonly acquired: AcquiredStorage;
}

/** Rejects if storage fails, and keeps trying in the background. */
async function releaseWithRetry({ key, lock, acquired }: LockRelease): Promise<void> {
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

/** Before the key is acquired: it may be free except for a stuck lock. */
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
/** Of all code together: the largest possible cell fits, a thousand of them do not. */
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

/** What storage keeps of one session: the lock on its key, its record, its cell history and its durable checkpoints. */

import { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { Lock, RecordStore, Storage } from '../storage/contract.ts';
import { boundHistory, type SessionRecord } from '../storage/session-record.ts';
import type { HistoryEntry } from './api.ts';
import type { CheckedOptions } from './session-options.ts';
import { storageFor } from './shared-resources.ts';

const MB = 1024 * 1024;
/** Whoever opens a session is about to run something: that comes first. */
const TELL_AFTER_MS = 10;

interface StoredSessionParts {
  readonly agentKey: string;
  readonly storage: Storage;
  readonly lock: Lock;
  readonly durableCheckpoints: DurableCheckpoints;
  readonly releaseStorage: () => void;
  /** Whether the storage was taken away, by `shutdown`. */
  readonly ended: () => boolean;
}

interface StoredSessionSettings {
  readonly workspaceOf?: string;
  /** Whatever the key had before is of no interest. */
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

  /** Takes the lock on the key; `AGENT_BUSY` where somebody has it. */
  static async open(
    options: CheckedOptions,
    dataDir: string,
    settings: StoredSessionSettings = {},
  ): Promise<StoredSession> {
    const { agentKey } = options;
    const now = Date.now();
    const blank: SessionRecord = {
      ...{ agentKey, createdAt: now, updatedAt: now, lastUsedAt: now, executions: 0, state: 'live', history: [] },
      ...(settings.workspaceOf === undefined ? {} : { workspaceOf: settings.workspaceOf }),
    };
    const place = { given: options.storage, dataDir };
    if (!options.persist) return new StoredSession(undefined, blank, place);
    const { storage: opening, release: giveBack, ended } = storageFor(options.storage, dataDir);
    let lock: Lock | undefined;
    try {
      const storage = await opening;
      await releaseStuckLock(lockName(place, agentKey));
      lock = await storage.locks.acquire(agentKey);
      // Whoever takes the agent over finds what was saved last, and nothing that comes after it from here.
      const own = storage.fenced(lock);
      const durableCheckpoints = new DurableCheckpoints(own.checkpoints, agentKey, {
        limitBytes: options.checkpointLimitMb * MB,
        seconds: options.checkpointTimeoutMs / 1000,
        clock: Date.now,
      });
      const known = settings.empty ? undefined : await own.records.get(agentKey);
      const record = known ? { ...known, state: 'live' as const, lastUsedAt: now } : blank;
      return new StoredSession(
        { agentKey, storage: own, lock, durableCheckpoints, releaseStorage: giveBack, ended },
        record,
        place,
      );
    } catch (error) {
      // Tried again by itself, where storage does not even take the lock back.
      if (lock) await releaseWithRetry({ key: lockName(place, agentKey), lock, ended, done: giveBack }).catch(() => {});
      else giveBack();
      throw error;
    }
  }

  get durableCheckpoints(): DurableCheckpoints | undefined {
    return this.#parts?.durableCheckpoints;
  }

  /** The agent whose workspace this one shares. */
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

  /** Told to others by and by: whoever opened it does not wait for that. */
  opened(pid: number): void {
    setTimeout(() => {
      if (!this.#closed) this.#write({ pid, state: 'live' });
    }, TELL_AFTER_MS).unref();
  }

  saved({ id, createdAt, execution }: Manifest): void {
    // Not before: a session that never opens, or saves nothing, leaves the folder of the last save as it was.
    const begun = this.#cwd === undefined ? {} : { cwd: this.#cwd };
    this.#write({ lastSave: { id, at: createdAt }, executions: execution, ...begun });
  }

  /** After `executions` of them in all. */
  async close(executions: number): Promise<void> {
    const parts = this.#parts;
    // With the storage went the lock; what was written is there.
    if (!parts || parts.ended()) return;
    this.#closed = true;
    this.#write({ state: 'hibernated', executions });
    try {
      await this.#writing;
    } finally {
      await this.releaseLock();
    }
  }

  /** Lets go of the key, and of nothing else: where the session never came to be, there is nothing to write. */
  async releaseLock(): Promise<void> {
    if (!this.#parts) return;
    const { agentKey, lock, ended, releaseStorage: giveBack } = this.#parts;
    await releaseWithRetry({ key: lockName(this.#location, agentKey), lock, ended, done: giveBack });
  }

  /**
   * After `close`: nothing of this agent is left, here and where `remove` finds it. Refused where somebody has it.
   * `remove` is given the records that there still are, where any are kept.
   */
  async deleteAll(remove: (records: RecordStore | undefined) => Promise<void>): Promise<void> {
    const { storage: opening, release: giveBack } = storageFor(this.#location.given, this.#location.dataDir);
    try {
      const storage = await opening;
      await using lock = await storage.locks.acquire(this.#record.agentKey);
      await storage.fenced(lock).deleteAgent(this.#record.agentKey);
      await remove(this.#parts && storage.records);
    } finally {
      giveBack();
    }
  }

  #write(change: Partial<SessionRecord>): void {
    const parts = this.#parts;
    if (!parts) return;
    Object.assign(this.#record, change, { updatedAt: Date.now(), lastUsedAt: Date.now() });
    const record = { ...this.#record, history: boundHistory(this.#history.all) };
    // A record is whole: what could not be written before is in it.
    const written = this.#writing.catch(() => {});
    this.#writing = written.then(() => parts.storage.records.put(parts.agentKey, record));
    // Told at the end, by `close`, where that was the last.
    this.#writing.catch(() => {});
  }
}

const lockName = ({ given, dataDir }: StorageLocation, agentKey: string): string =>
  JSON.stringify([given?.toBootstrapConfig() ?? dataDir, agentKey]);

const RETRY_MS = 1000;

/** By key: what lets go of a lock that could not be released when its session ended. */
const stuckLocks = new Map<string, () => Promise<void>>();

interface LockRelease {
  /** One key of one storage. */
  readonly key: string;
  readonly lock: Lock;
  /** The storage of the lock was closed, and its locks with it. */
  readonly ended: () => boolean;
  /** Called when the lock is free. */
  readonly done: () => void;
}

/** Rejects where storage fails, and goes on trying in the background. */
async function releaseWithRetry({ key, lock, ended, done }: LockRelease): Promise<void> {
  const release = async () => {
    if (!ended()) await lock.release();
    stuckLocks.delete(key);
    done();
  };
  try {
    await release();
  } catch (error) {
    stuckLocks.set(key, release);
    retryLater(key, release);
    throw error;
  }
}

/** For whoever wants a key: it may be free but for a lock that is left over. */
async function releaseStuckLock(key: string): Promise<void> {
  await stuckLocks.get(key)?.();
}

function retryLater(key: string, release: () => Promise<void>): void {
  const attempt = async () => {
    if (stuckLocks.get(key) !== release) return;
    // It was told when the session ended, and is told again to whoever wants the key.
    await release().catch(() => retryLater(key, release));
  };
  setTimeout(attempt, RETRY_MS).unref();
}

const MOST_CELLS = 1000;
/** Of code, in all: the largest cell there can be fits, and a thousand such do not stay in memory. */
const MOST_CHARACTERS = 32 * 1024 * 1024;

export class CellHistory {
  /** Up to twice as many as are shown: an array that loses its first entry each time is moved each time. */
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

  /** How many of the oldest have to go so that the rest may stay. The newest always stays. */
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

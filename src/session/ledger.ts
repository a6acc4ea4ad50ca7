/** What storage keeps of one session: the lock on its key, its record, its history and its durable checkpoints. */

import { DurableCheckpoints } from '../kernel-manager/durable-checkpoints.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { Lock, RecordStore, Storage } from '../storage/contract.ts';
import { boundHistory, type SessionRecord } from '../storage/session-record.ts';
import type { HistoryEntry } from './api.ts';
import { letGo, letGoOfLeftovers } from './letting-go.ts';
import type { CheckedOptions } from './options.ts';
import { RecentCells } from './recent-cells.ts';
import { storageFor } from './storages.ts';

const MB = 1024 * 1024;
/** Whoever opens a session is about to run something: that comes first. */
const TELL_AFTER_MS = 10;

interface LedgerParts {
  readonly agentKey: string;
  readonly storage: Storage;
  readonly lock: Lock;
  readonly archive: DurableCheckpoints;
  readonly giveBack: () => void;
  /** Whether the storage was taken away, by `shutdown`. */
  readonly ended: () => boolean;
}

interface LedgerSettings {
  readonly workspaceOf?: string;
  /** Whatever the key had before is of no interest. */
  readonly empty?: boolean;
}

/** Where its storage is found. */
interface Place {
  readonly given: Storage | undefined;
  readonly dataDir: string;
}

export class Ledger {
  readonly #parts: LedgerParts | undefined;
  readonly #record: SessionRecord;
  readonly #history: RecentCells;
  readonly #place: Place;
  #writing: Promise<void> = Promise.resolve();
  #closed = false;
  #cwd: string | undefined;

  private constructor(parts: LedgerParts | undefined, record: SessionRecord, place: Place) {
    this.#place = place;
    this.#parts = parts;
    this.#record = record;
    this.#history = new RecentCells(record.history);
  }

  /** Takes the lock on the key; `AGENT_BUSY` where somebody has it. */
  static async open(options: CheckedOptions, dataDir: string, settings: LedgerSettings = {}): Promise<Ledger> {
    const { agentKey } = options;
    const now = Date.now();
    const blank: SessionRecord = {
      ...{ agentKey, createdAt: now, updatedAt: now, lastUsedAt: now, executions: 0, state: 'live', history: [] },
      ...(settings.workspaceOf === undefined ? {} : { workspaceOf: settings.workspaceOf }),
    };
    const place = { given: options.storage, dataDir };
    if (!options.persist) return new Ledger(undefined, blank, place);
    const { storage: opening, giveBack, ended } = storageFor(options.storage, dataDir);
    let lock: Lock | undefined;
    try {
      const storage = await opening;
      await letGoOfLeftovers(nameOf(place, agentKey));
      lock = await storage.locks.acquire(agentKey);
      // Whoever takes the agent over finds what was saved last, and nothing that comes after it from here.
      const own = storage.fenced(lock);
      const archive = new DurableCheckpoints(own.checkpoints, agentKey, {
        limitBytes: options.checkpointLimitMb * MB,
        seconds: options.checkpointTimeoutMs / 1000,
        clock: Date.now,
      });
      const known = settings.empty ? undefined : await own.records.get(agentKey);
      const record = known ? { ...known, state: 'live' as const, lastUsedAt: now } : blank;
      return new Ledger({ agentKey, storage: own, lock, archive, giveBack, ended }, record, place);
    } catch (error) {
      // Tried again by itself, where storage does not even take the lock back.
      if (lock) await letGo({ key: nameOf(place, agentKey), lock, ended, done: giveBack }).catch(() => {});
      else giveBack();
      throw error;
    }
  }

  get archive(): DurableCheckpoints | undefined {
    return this.#parts?.archive;
  }

  /** The agent whose workspace this one shares. */
  get workspaceOf(): string | undefined {
    return this.#record.workspaceOf;
  }

  get history(): readonly HistoryEntry[] {
    return this.#history.all;
  }

  remember(entry: HistoryEntry): void {
    this.#history.add(entry);
  }

  /** The code begins in this folder. */
  beginIn(cwd: string): void {
    if (this.#record.cwd !== undefined && this.#record.cwd !== cwd) this.archive?.ignoreSavedCwd();
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
      await this.abandon();
    }
  }

  /** Lets go of the key, and of nothing else: where the session never came to be, there is nothing to write. */
  async abandon(): Promise<void> {
    if (!this.#parts) return;
    const { agentKey, lock, ended, giveBack } = this.#parts;
    await letGo({ key: nameOf(this.#place, agentKey), lock, ended, done: giveBack });
  }

  /**
   * After `close`: nothing of this agent is left, here and where `remove` finds it. Refused where somebody has it.
   * `remove` is given the records that there still are, where any are kept.
   */
  async forget(remove: (records: RecordStore | undefined) => Promise<void>): Promise<void> {
    const { storage: opening, giveBack } = storageFor(this.#place.given, this.#place.dataDir);
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

const nameOf = ({ given, dataDir }: Place, agentKey: string): string =>
  JSON.stringify([given?.toBootstrapConfig() ?? dataDir, agentKey]);

/**
 * One owner per agent key: a row in cella.db that names the owner, and has no effect once the owner has ended. A process
 * keeps a file locked while it runs, so that others can see whether it is alive.
 */

import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { newProcessIdentity, type ProcessIdentity, processState } from '../../lib/process-identity.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AcquireLockOptions, Clock, Lock, LockOwner, Locks } from '../contract.ts';
import { LockHandle, lockAborted, lockBusy, ownCommand } from '../lock-handle.ts';
import { type Database, keyColumn, loadSqlite, type Row, type SqliteConnection } from './database.ts';
import { sqliteCode, storageFailed, storageMoved } from './file-errors.ts';

/** How often to check a lock that another owner holds. */
const POLL_MS = 20;
/** How often to retry a failed release. Until then no other process can get the lock. */
const RETRY_MS = 500;

const HOST = hostname();

interface Taker {
  readonly lockId: string;
  readonly owner: ProcessIdentity;
  readonly command: string;
}

export class FileLocks implements Locks {
  readonly #database: Pick<Database, 'read' | 'write'>;
  readonly #liveness: Pick<ProcessLiveness, 'ownId' | 'isAlive'>;
  readonly #clock: Clock;
  readonly #column: (key: string) => string;
  readonly #held = new Set<LockHandle>();
  #closed = false;

  /** `column` encodes a key for the database. Locks on other things than agent keys use another encoding. */
  constructor(
    database: Pick<Database, 'read' | 'write'>,
    liveness: Pick<ProcessLiveness, 'ownId' | 'isAlive'>,
    clock: Clock,
    column = keyColumn,
  ) {
    this.#database = database;
    this.#liveness = liveness;
    this.#clock = clock;
    this.#column = column;
  }

  get id(): string {
    return this.#liveness.ownId;
  }

  async acquire(
    agentKey: string,
    { waitMs = 0, signal, command = ownCommand() }: AcquireLockOptions = {},
  ): Promise<Lock> {
    const deadline = performance.now() + waitMs;
    for (;;) {
      if (signal?.aborted) throw lockAborted(agentKey, signal.reason);
      const lockId = randomUUID();
      const { ownId: owner } = this.#liveness;
      let other = await this.#database.write((db) => this.#take(db, agentKey, { lockId, owner, command }));
      if (!other) return this.#keep(agentKey, lockId, signal);
      while (other) {
        const left = deadline - performance.now();
        if (left <= 0) throw lockBusy(agentKey, ownerFrom(other));
        await delay(Math.min(left, POLL_MS), undefined, signal ? { signal } : {}).catch((cause) => {
          throw lockAborted(agentKey, cause);
        });
        other = await this.#database.read((db) => this.#ownerRow(db, agentKey));
      }
    }
  }

  async ownerOf(agentKey: string): Promise<LockOwner | undefined> {
    const row = await this.#database.read((db) => this.#ownerRow(db, agentKey));
    if (!row) return undefined;
    const { id, pid, host, since } = ownerFrom(row);
    return { id, pid, host, since };
  }

  /** Releases all locks acquired here. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const lock of [...this.#held]) await lock.release();
  }

  /** Checks and takes the lock in one transaction: if several find a dead owner's lock, one gets it. */
  #take(db: SqliteConnection, agentKey: string, { lockId, owner, command }: Taker): Row | undefined {
    const other = this.#ownerRow(db, agentKey);
    if (other) return other;
    db.run(
      'INSERT OR REPLACE INTO locks (agent, grip, holder, pid, host, command, since) VALUES (?, ?, ?, ?, ?, ?, ?)',
      this.#column(agentKey),
      lockId,
      owner,
      process.pid,
      HOST,
      command,
      Math.trunc(this.#clock()),
    );
    return undefined;
  }

  #ownerRow(db: SqliteConnection, agentKey: string): Row | undefined {
    const row = db.get('SELECT holder, pid, host, command, since FROM locks WHERE agent = ?', this.#column(agentKey));
    return row && this.#liveness.isAlive(String(row.holder)) ? row : undefined;
  }

  async #keep(agentKey: string, lockId: string, signal: AbortSignal | undefined): Promise<Lock> {
    const lock = new LockHandle(agentKey, async () => {
      const remove = (db: SqliteConnection) =>
        db.run('DELETE FROM locks WHERE agent = ? AND grip = ?', this.#column(agentKey), lockId);
      try {
        await this.#database.write(remove);
      } catch (error) {
        this.#releaseLater(lock);
        throw error;
      }
      this.#held.delete(lock);
    });
    this.#held.add(lock);
    if (!signal?.aborted) return lock;
    await lock.release();
    throw lockAborted(agentKey, signal.reason);
  }

  /** The storage failed. The timer does not keep the process alive, because the lock ends with the process. */
  #releaseLater(lock: LockHandle): void {
    if (this.#closed) return;
    const again = () => lock.release().catch(() => {}); // `release` schedules the next attempt
    setTimeout(() => void again(), RETRY_MS).unref();
  }
}

const ownerFrom = ({ holder, pid, host, since, command }: Row) => ({
  id: String(holder),
  pid: Number(pid),
  host: String(host),
  since: Number(since),
  command: String(command ?? ''),
});

const BUSY = 5;
const CANNOT_OPEN = 14;
/** Without a journal, because nothing is ever written. */
const exclusive = 'PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE';
const shared = 'BEGIN; SELECT count(*) FROM sqlite_schema';

/** The operating system releases the file lock however the process ends, and also shows it to other containers. */
export class ProcessLiveness {
  readonly #folder: string;
  #own: { readonly identity: ProcessIdentity; readonly lock: DatabaseSync } | undefined;
  #closed = false;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** The identity of this process; its lock is taken at the first call. */
  get ownId(): ProcessIdentity {
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${this.#folder}: the storage is closed.`);
    this.#own ??= this.#lockOwn();
    return this.#own.identity;
  }

  /** Fails if the folder was replaced since it was opened, because this process's own file is in the old one. */
  check(): void {
    if (existsSync(this.#path(this.ownId))) return;
    throw storageMoved(dirname(this.#folder));
  }

  isAlive(identity: ProcessIdentity): boolean {
    const state = processState(identity);
    if (state !== 'unknown') return state === 'alive';
    const lock = this.#tryLock(identity, 'look');
    if (typeof lock === 'object') lock.close();
    return lock === 'held';
  }

  /** Whether any process has the folder open. */
  get inUse(): boolean {
    try {
      return readdirSync(this.#folder).some((identity) => this.isAlive(identity));
    } catch (cause) {
      if (systemCode(cause) === 'ENOENT') return false;
      throw cause instanceof CellaError ? cause : storageFailed('read', this.#folder, cause);
    }
  }

  /** `let go`: the process may still be running, but has closed the storage. */
  statusOf(identity: ProcessIdentity): 'has it' | 'let go' | 'ended' {
    if (processState(identity) === 'dead') return 'ended';
    if (!existsSync(this.#path(identity))) return 'let go';
    return this.isAlive(identity) ? 'has it' : 'ended';
  }

  /** Removes the files of processes that ended without closing. */
  sweep(): void {
    for (const identity of existsSync(this.#folder) ? readdirSync(this.#folder) : []) {
      if (processState(identity) === 'alive') continue;
      const lock = this.#tryLock(identity, 'look');
      if (typeof lock !== 'object') continue;
      // Removed while locked here: another process finds it locked, or missing.
      rmSync(this.#path(identity), { force: true });
      lock.close();
    }
  }

  close(): void {
    this.#closed = true;
    const own = this.#own;
    this.#own = undefined;
    if (!own) return;
    rmSync(this.#path(own.identity), { force: true });
    own.lock.close();
  }

  #lockOwn(): { identity: ProcessIdentity; lock: DatabaseSync } {
    try {
      mkdirSync(this.#folder, { mode: 0o700 });
    } catch (cause) {
      if (systemCode(cause) !== 'EEXIST') throw storageFailed('make the folder', this.#folder, cause);
    }
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const identity = newProcessIdentity();
      const lock = this.#tryLock(identity, 'hold');
      if (typeof lock !== 'object') continue;
      if (existsSync(this.#path(identity))) {
        chmodSync(this.#path(identity), 0o600);
        return { identity, lock };
      }
      lock.close(); // another process swept it before it was locked
    }
    throw storageFailed('lock a file in', this.#folder, new Error('what is made there is gone at once'));
  }

  /**
   * Uses SQLite's lock on an empty file: Node offers no other lock that ends with the process. One process may hold it, or any
   * number may look at it; processes that only look never take each other for the owner.
   */
  #tryLock(identity: ProcessIdentity, purpose: 'hold' | 'look'): DatabaseSync | 'held' | 'missing' {
    const path = this.#path(identity);
    const url = pathToFileURL(path);
    url.searchParams.set('mode', purpose === 'hold' ? 'rwc' : 'rw');
    let lock: DatabaseSync | undefined;
    try {
      lock = new (loadSqlite().DatabaseSync)(url);
      lock.exec(purpose === 'hold' ? exclusive : shared);
      return lock;
    } catch (cause) {
      lock?.close();
      if (sqliteCode(cause) === BUSY) return 'held';
      if (sqliteCode(cause) === CANNOT_OPEN && purpose === 'look' && !existsSync(path)) return 'missing';
      throw storageFailed('lock', path, cause);
    }
  }

  #path(identity: ProcessIdentity): string {
    return join(this.#folder, identity);
  }
}

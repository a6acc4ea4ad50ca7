/** One owner per agent key: a row in cella.db that names the owner, and has no effect once the owner has ended. */

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessIdentity } from '../../lib/process-identity.ts';
import type { AcquireLockOptions, Clock, Lock, LockOwner, Locks } from '../contract.ts';
import { LockHandle, lockAborted, lockBusy, ownCommand } from '../lock-handle.ts';
import { type Database, keyColumn, type Row, type SqliteConnection } from './database.ts';
import type { ProcessLiveness } from './process-liveness.ts';

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

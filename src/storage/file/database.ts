/**
 * cella.db: opened at first use, safe with several processes at once. Writers take turns and do not block the event
 * loop while they wait for another process.
 *
 * A commit is in the write-ahead log when it returns, and so survives kill -9. Where there are many, or the disk is slow,
 * it is flushed from another thread, together with all that were made meanwhile; SQLite's own way (synchronous = FULL)
 * would always do it on this one.
 */

import { fdatasync, fdatasyncSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { CellaError } from '../../protocol/errors.ts';
import { Connection } from './connection.ts';
import { moved, sqliteCode, storageFailed } from './failure.ts';
import { GroupSync } from './group-sync.ts';

const BUSY = 5;
const PATIENCE_MS = 30_000;

const flush = promisify(fdatasync);

export class Database {
  readonly path: string;
  #connection: Connection | undefined;
  #closed = false;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #sync = new GroupSync({
    flush: () => {
      if (this.#connection) fdatasyncSync(this.#connection.log);
      this.#checkPlace();
    },
    flushElsewhere: async () => {
      if (this.#connection) await flush(this.#connection.log);
      this.#checkPlace();
    },
  });

  constructor(path: string) {
    this.path = path;
  }

  read<T>(work: (connection: Connection) => T): Promise<T> {
    return this.#patiently('read', work);
  }

  /** In the order of the calls, each as one transaction. Survives the end of the process when it resolves. */
  write<T>(work: (connection: Connection) => T): Promise<T> {
    const turn = this.#turn.then(() => this.#patiently('write to', (connection) => connection.transact(work)));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** As `write`, and on the disk when it resolves. */
  async writeDurably<T>(work: (connection: Connection) => T): Promise<T> {
    const written = await this.write(work);
    try {
      await this.#sync.reached();
    } catch (cause) {
      throw storageFailed('write to', this.path, cause);
    }
    return written;
  }

  /** Whether its path still leads to it; `same` while it is not open. */
  get place(): Connection['place'] {
    return this.#connection?.place ?? 'same';
  }

  /** Before anything is acknowledged: what is written to a file that has no name any more is lost. */
  #checkPlace(): void {
    if (this.place !== 'same') throw moved(this.path);
  }

  /** What was asked for before is carried out. */
  async close(): Promise<void> {
    await this.#turn;
    this.#closed = true;
    await this.#sync.reached().catch(() => {});
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** Tries again while another process writes. */
  async #patiently<T>(action: string, work: (connection: Connection) => T): Promise<T> {
    const deadline = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        return work(this.#open());
      } catch (cause) {
        if (sqliteCode(cause) !== BUSY || performance.now() > deadline) throw storageFailed(action, this.path, cause);
      }
      await delay(1 + Math.random() * 10);
    }
  }

  #open(): Connection {
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${this.path}: the storage is closed.`);
    this.#connection ??= new Connection(this.path);
    return this.#connection;
  }
}

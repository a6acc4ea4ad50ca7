/**
 * cella.db: opened at first use, safe with several processes at once. Writers take turns and do not block the event
 * loop while they wait for another process.
 *
 * A commit is in the write-ahead log when it returns, and so survives kill -9. Where there are many, or the disk is slow,
 * it is flushed from another thread, together with all that were made meanwhile; SQLite's own way (synchronous = FULL)
 * would always do it on this one.
 */

import {
  chmodSync,
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type * as Sqlite from 'node:sqlite';
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { CellaError } from '../../protocol/errors.ts';
import { sqliteCode, storageFailed, storageMoved } from './file-errors.ts';
import { GroupCommit } from './group-commit.ts';
import { prepareSchema } from './schema.ts';

const BUSY = 5;
const BUSY_TIMEOUT_MS = 30_000;

const flush = promisify(fdatasync);

export class Database {
  readonly path: string;
  #connection: SqliteConnection | undefined;
  #closed = false;
  #turn: Promise<unknown> = Promise.resolve();
  readonly #sync = new GroupCommit({
    flush: () => {
      if (this.#connection) fdatasyncSync(this.#connection.log);
      this.#checkLocation();
    },
    flushElsewhere: async () => {
      if (this.#connection) await flush(this.#connection.log);
      this.#checkLocation();
    },
  });

  constructor(path: string) {
    this.path = path;
  }

  read<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    return this.#retryWhileBusy('read', work);
  }

  /** In the order of the calls, each as one transaction. Survives the end of the process when it resolves. */
  write<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const turn = this.#turn.then(() => this.#retryWhileBusy('write to', (connection) => connection.transact(work)));
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** As `write`, and on the disk when it resolves. */
  async writeDurably<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const written = await this.write(work);
    try {
      await this.#sync.flushed();
    } catch (cause) {
      throw storageFailed('write to', this.path, cause);
    }
    return written;
  }

  /** Whether its path still leads to it; `same` while it is not open. */
  get location(): SqliteConnection['location'] {
    return this.#connection?.location ?? 'same';
  }

  /** Checked before a write is acknowledged: data in a file that has lost its name is lost. */
  #checkLocation(): void {
    if (this.location !== 'same') throw storageMoved(this.path);
  }

  /** What was asked for before is carried out. */
  async close(): Promise<void> {
    await this.#turn;
    this.#closed = true;
    await this.#sync.flushed().catch(() => {});
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** Tries again while another process writes. */
  async #retryWhileBusy<T>(action: string, work: (connection: SqliteConnection) => T): Promise<T> {
    const deadline = performance.now() + BUSY_TIMEOUT_MS;
    for (;;) {
      try {
        return work(this.#open());
      } catch (cause) {
        if (sqliteCode(cause) !== BUSY || performance.now() > deadline) throw storageFailed(action, this.path, cause);
      }
      await delay(1 + Math.random() * 10);
    }
  }

  #open(): SqliteConnection {
    if (this.#closed) throw new CellaError('STORAGE_FAILED', `Cannot use ${this.path}: the storage is closed.`);
    this.#connection ??= new SqliteConnection(this.path);
    return this.#connection;
  }
}

/** How long SQLite itself waits for another process, on this thread. */
const SHORT_WAIT_MS = 5;

const ENDINGS = ['', '-wal', '-shm'] as const;

export type Row = Record<string, SQLOutputValue>;

export class SqliteConnection {
  readonly #database: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();
  /** The write-ahead log, which stays the same file as long as the database is open. */
  readonly log: number;
  readonly #path: string;
  readonly #files: readonly Stats[];

  constructor(path: string) {
    refuseEmptied(path);
    const database = new (loadSqlite().DatabaseSync)(path);
    try {
      configure(database, path);
      this.#database = database;
      this.log = openSync(`${path}-wal`, 'r');
      this.#path = path;
      this.#files = ENDINGS.map((ending) => statSync(path + ending));
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** The number of rows that changed. */
  run(text: string, ...values: SQLInputValue[]): number {
    return Number(this.#prepare(text).run(...values).changes);
  }

  get(text: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#prepare(text).get(...values);
  }

  /** To be used up, or left, before anything else runs. */
  iterate(text: string, ...values: SQLInputValue[]): IterableIterator<Row> {
    return this.#prepare(text).iterate(...values);
  }

  /** All of the work or nothing. */
  transact<T>(work: (connection: SqliteConnection) => T): T {
    this.run('BEGIN IMMEDIATE');
    try {
      const result = work(this);
      this.run('COMMIT');
      return result;
    } catch (error) {
      // A full disk ends the transaction by itself.
      if (this.#database.isTransaction) this.run('ROLLBACK');
      throw error;
    }
  }

  /** Whether the paths still lead to the open files. `replaced`: they lead to another database. */
  get location(): 'same' | 'missing' | 'replaced' {
    const now = ENDINGS.map((ending) => statSync(this.#path + ending, { throwIfNoEntry: false }));
    if (now.every((stats, index) => isSameFile(stats, this.#files[index]))) return 'same';
    return now[0] && !isSameFile(now[0], this.#files[0]) ? 'replaced' : 'missing';
  }

  close(): void {
    closeSync(this.log);
    // SQLite would remove the write-ahead log that has the name now, and with it what another process has written.
    if (this.location !== 'replaced') this.#database.close();
  }

  #prepare(text: string): StatementSync {
    const known = this.#prepared.get(text);
    if (known) return known;
    const statement = this.#database.prepare(text);
    this.#prepared.set(text, statement);
    return statement;
  }
}

const isSameFile = (one: Stats | undefined, other: Stats | undefined): boolean =>
  one !== undefined && one.ino === other?.ino && one.dev === other.dev;

/** SQLite takes an empty file for a new database. Where agents have worked, it is one that has lost everything. */
function refuseEmptied(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.size !== 0) return;
  const folder = dirname(path);
  const used = ['checkpoints', 'agents'].some((name) => {
    const inside = join(folder, name);
    return existsSync(inside) && readdirSync(inside).some((entry) => !entry.startsWith('.'));
  });
  if (!used) return;
  const message = `Cannot use ${path}: it is empty, and ${folder} holds the work of agents. Its records and event logs are lost.`;
  const advice =
    'Bring back a copy of it. To begin with an empty one, move it away with its -wal and -shm files: files of agents and checkpoints stay.';
  throw new CellaError('STORAGE_FAILED', message, { advice, details: { path, reason: 'EMPTY' } });
}

function configure(database: DatabaseSync, path: string): void {
  // SQLite gives its other files the rights of this one. It must not be opened by any other means: closing such a
  // descriptor would let go of SQLite's locks.
  if ((statSync(path).mode & 0o077) !== 0) chmodSync(path, 0o600);
  database.exec(`PRAGMA busy_timeout = ${SHORT_WAIT_MS}`);
  const mode = database.prepare('PRAGMA journal_mode = WAL').get()?.journal_mode;
  if (mode !== 'wal') {
    const reason = 'its file system cannot share memory between processes. Use a folder on a local disk';
    throw new CellaError('STORAGE_FAILED', `Cannot use ${path}: ${reason}.`, { details: { path } });
  }
  database.exec('PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 67108864');
  prepareSchema(database, path);
}

/** Some versions of Node warn that the module is experimental: that one warning is held back while it loads. */
export function loadSqlite(): typeof Sqlite {
  const emitWarning = process.emitWarning;
  process.emitWarning = (...words: unknown[]) => {
    if (!/^SQLite is an experimental feature/.test(String(words[0]))) Reflect.apply(emitWarning, process, words);
  };
  try {
    // Loads synchronously, so no other warning can come in between.
    return process.getBuiltinModule('node:sqlite');
  } finally {
    process.emitWarning = emitWarning;
  }
}

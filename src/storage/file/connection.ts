/** One connection to cella.db: how it is opened, its prepared statements, and transactions on it. */

import { chmodSync, closeSync, openSync, statSync } from 'node:fs';
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { CellaError } from '../../protocol/errors.ts';
import { prepareSchema } from './schema.ts';
import { loadSqlite } from './sqlite.ts';

/** How long SQLite itself waits for another process, on this thread. */
const SHORT_WAIT_MS = 5;

export type Row = Record<string, SQLOutputValue>;

export class Connection {
  readonly #database: DatabaseSync;
  readonly #prepared = new Map<string, StatementSync>();
  /** The write-ahead log, which stays the same file as long as the database is open. */
  readonly log: number;

  constructor(path: string) {
    const database = new (loadSqlite().DatabaseSync)(path);
    try {
      setUp(database, path);
      this.#database = database;
      this.log = openSync(`${path}-wal`, 'r');
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
  transact<T>(work: (connection: Connection) => T): T {
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

  close(): void {
    closeSync(this.log);
    this.#database.close();
  }

  #prepare(text: string): StatementSync {
    const known = this.#prepared.get(text);
    if (known) return known;
    const statement = this.#database.prepare(text);
    this.#prepared.set(text, statement);
    return statement;
  }
}

function setUp(database: DatabaseSync, path: string): void {
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

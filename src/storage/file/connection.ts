/** One connection to cella.db: how it is opened, its prepared statements, and transactions on it. */

import { chmodSync, closeSync, existsSync, openSync, readdirSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { CellaError } from '../../protocol/errors.ts';
import { prepareSchema } from './schema.ts';
import { loadSqlite } from './sqlite.ts';

/** How long SQLite itself waits for another process, on this thread. */
const SHORT_WAIT_MS = 5;

const ENDINGS = ['', '-wal', '-shm'] as const;

export type Row = Record<string, SQLOutputValue>;

export class Connection {
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
      setUp(database, path);
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

  /** Whether the paths still lead to the files that are open. `replaced`: to a database of somebody else. */
  get place(): 'same' | 'missing' | 'replaced' {
    const now = ENDINGS.map((ending) => statSync(this.#path + ending, { throwIfNoEntry: false }));
    if (now.every((stats, index) => isSame(stats, this.#files[index]))) return 'same';
    return now[0] && !isSame(now[0], this.#files[0]) ? 'replaced' : 'missing';
  }

  close(): void {
    closeSync(this.log);
    // SQLite would remove the write-ahead log that has the name now, and with it what another process has written.
    if (this.place !== 'replaced') this.#database.close();
  }

  #prepare(text: string): StatementSync {
    const known = this.#prepared.get(text);
    if (known) return known;
    const statement = this.#database.prepare(text);
    this.#prepared.set(text, statement);
    return statement;
  }
}

const isSame = (one: Stats | undefined, other: Stats | undefined): boolean =>
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

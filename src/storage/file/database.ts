/**
 * cella.db: opened at first use, safe with several processes at once. Writers take turns and do not block the event loop while
 * they wait for another process.
 *
 * A commit is in the write-ahead log when it returns, and so survives kill -9. If there are many commits or the disk is slow,
 * another thread flushes them together; SQLite's own way (synchronous = FULL) would always flush on this thread.
 *
 * Creates its tables and migrates them to the newest version, step by step.
 */

import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  existsSync,
  fdatasync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type * as Sqlite from 'node:sqlite';
import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { tryParseJson } from '../../lib/json-scanner.ts';
import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { entriesOf, indexedCollections } from '../collection.ts';
import { folderName } from '../validation.ts';
import { sqliteCode, storageFailed, storageMoved } from './file-errors.ts';

/**
 * Each entry migrates from one version to the next. Keys are stored as JSON, which keeps all of them distinct: as plain text,
 * lone surrogates would become the same. Stored names stay, such as `grip` (the id of a lock) and `holder` (its owner).
 */
const steps: readonly (string | ((database: DatabaseSync, path: string) => void))[] = [
  `
CREATE TABLE records (agent TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, floor INTEGER NOT NULL,
  bytes INTEGER NOT NULL
);
CREATE TABLE events (
  log INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, start INTEGER NOT NULL, event TEXT NOT NULL,
  PRIMARY KEY (log, seq)
);
CREATE TABLE locks (
  agent TEXT PRIMARY KEY, grip TEXT NOT NULL, holder TEXT NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL,
  command TEXT, since INTEGER NOT NULL
);
`,
  `
CREATE TABLE deps (name TEXT PRIMARY KEY, requirement TEXT NOT NULL);
CREATE TABLE transcripts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  text TEXT NOT NULL, UNIQUE (agent, id)
);
`,
  `
CREATE TABLE documents (
  revision INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  UNIQUE (collection, id)
);
`,
  `
CREATE TABLE scope_deps (scope TEXT NOT NULL, name TEXT NOT NULL, requirement TEXT NOT NULL, PRIMARY KEY (scope, name));
INSERT INTO scope_deps SELECT '', name, requirement FROM deps;
DROP TABLE deps;
ALTER TABLE scope_deps RENAME TO deps;
`,
  indexDocuments,
  moveTranscripts,
];

/** Creates missing tables. If several processes try at once, one creates them. */
function prepareSchema(database: DatabaseSync, path: string): void {
  if (versionOf(database) < steps.length) {
    database.exec('BEGIN IMMEDIATE');
    for (const step of steps.slice(versionOf(database))) {
      if (typeof step === 'string') database.exec(step);
      else step(database, path);
    }
    if (versionOf(database) < steps.length) database.exec(`PRAGMA user_version = ${steps.length}`);
    database.exec('COMMIT');
  }
  const version = versionOf(database);
  if (version === steps.length) return;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot use ${path}: it has version ${version}, and this Cella knows version ${steps.length}. Use a newer Cella, or another folder.`,
    { details: { path, version } },
  );
}

/** Also indexes the existing documents. */
function indexDocuments(database: DatabaseSync): void {
  database.exec(`
CREATE TABLE document_fields (
  collection TEXT NOT NULL, entry TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (collection, entry, id)
) WITHOUT ROWID;
CREATE INDEX document_fields_of ON document_fields (collection, id);
`);
  const insert = database.prepare('INSERT INTO document_fields (collection, entry, id) VALUES (?, ?, ?)');
  const rows = database.prepare('SELECT id, document FROM documents WHERE collection = ?');
  for (const collection of indexedCollections) {
    for (const { id, document } of rows.iterate(collection)) {
      // A damaged document is found by its id alone.
      for (const entry of entriesOf(collection, tryParseJson(String(document))))
        insert.run(collection, entry, String(id));
    }
  }
}

/** Moves their texts to files, unchanged. */
function moveTranscripts(database: DatabaseSync, path: string): void {
  database.exec(`
ALTER TABLE transcripts RENAME TO old_transcripts;
CREATE TABLE transcripts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  length INTEGER NOT NULL, bytes INTEGER NOT NULL, file TEXT NOT NULL, UNIQUE (agent, id)
);
`);
  const insert = database.prepare(
    'INSERT INTO transcripts (number, agent, id, revision, length, bytes, file) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const rows = database.prepare('SELECT number, agent, id, revision, text FROM old_transcripts ORDER BY number');
  for (const { number, agent, id, revision, text } of rows.iterate()) {
    const folder = join(dirname(path), 'transcripts', folderName(JSON.parse(String(agent))));
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const file = randomUUID();
    const bytes = Buffer.from(String(text));
    writeFileSync(join(folder, file), bytes, { flag: 'wx', mode: 0o600, flush: true });
    const { length } = String(JSON.parse(String(text)));
    insert.run(Number(number), String(agent), String(id), Number(revision), length, bytes.length, file);
  }
  database.exec('DROP TABLE old_transcripts');
}

const versionOf = (database: DatabaseSync): number =>
  Number(database.prepare('PRAGMA user_version').get()?.user_version);

/** Empty for data without a scope. */
export const scopeColumn = (scope: string | undefined): string => (scope === undefined ? '' : JSON.stringify(scope));

export const keyColumn = (agentKey: string): string => JSON.stringify(agentKey);

const BUSY = 5;
const BUSY_TIMEOUT_MS = 30_000;

const flush = promisify(fdatasync);

export class Database {
  readonly path: string;
  #connection: SqliteConnection | undefined;
  #closed = false;
  readonly #writes = new SerialQueue();
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

  /** Runs each call as one transaction, in order. Survives the end of the process when it resolves. */
  write<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    return this.#writes.run(() => this.#retryWhileBusy('write to', (connection) => connection.transact(work)));
  }

  /** Like `write`, and on disk when it resolves. */
  async writeDurably<T>(work: (connection: SqliteConnection) => T): Promise<T> {
    const written = await this.write(work);
    try {
      await this.#sync.flushed();
    } catch (cause) {
      throw storageFailed('write to', this.path, cause);
    }
    return written;
  }

  /** Whether its path still leads to the open file; `same` if it is not open. */
  get location(): SqliteConnection['location'] {
    return this.#connection?.location ?? 'same';
  }

  /** Checked before a write is acknowledged: data in a file that has lost its name is lost. */
  #checkLocation(): void {
    if (this.location !== 'same') throw storageMoved(this.path);
  }

  /** Completes earlier calls first. */
  async close(): Promise<void> {
    await this.#writes.idle();
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

/** How long SQLite may block this thread while another process writes. */
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

  /** Read it to the end, or leave the loop, before anything else runs. */
  iterate(text: string, ...values: SQLInputValue[]): IterableIterator<Row> {
    return this.#prepare(text).iterate(...values);
  }

  /** Runs all of the work or nothing. */
  transact<T>(work: (connection: SqliteConnection) => T): T {
    this.run('BEGIN IMMEDIATE');
    try {
      const result = work(this);
      this.run('COMMIT');
      return result;
    } catch (error) {
      // A full disk already ends the transaction.
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
    // SQLite would remove the file that now has the name of the write-ahead log, with data of another process.
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

/** SQLite takes an empty file for a new database. If kernels have run, it has lost everything. */
function refuseEmptied(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.size !== 0) return;
  const folder = dirname(path);
  const used = ['checkpoints', 'agents'].some((name) => {
    const inside = join(folder, name);
    return existsSync(inside) && readdirSync(inside).some((entry) => !entry.startsWith('.'));
  });
  if (!used) return;
  const message = `Cannot use ${path}: it is empty, and ${folder} holds the work of kernels. Its records and event logs are lost.`;
  const advice =
    'Bring back a copy of it. To begin with an empty one, move it away with its -wal and -shm files: workspaces and checkpoints stay.';
  throw new CellaError('STORAGE_FAILED', message, { advice, details: { path, reason: 'EMPTY' } });
}

function configure(database: DatabaseSync, path: string): void {
  // SQLite's other files get the permissions of this one. Change them by path only: closing another descriptor of the file
  // would release SQLite's locks.
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

/** Some versions of Node warn that the module is experimental. Suppresses that one warning while it loads. */
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

interface Disk {
  /** Returns only after everything is on disk. */
  flush(): void;
  /** The same from another thread. */
  flushElsewhere(): Promise<void>;
}

/** Calls within this time share one flush. */
const OFTEN_MS = 1;
/** After a slower flush, the main thread does not wait for the disk for a while. */
const QUICK_MS = 0.5;
const WARY_MS = 10_000;

export class GroupCommit {
  readonly #disk: Disk;
  readonly #clock: () => number;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;
  #flushing = false;
  #lastAsked = Number.NEGATIVE_INFINITY;
  #waryUntil = Number.NEGATIVE_INFINITY;

  /** `clock` returns monotonic milliseconds. */
  constructor(disk: Disk, clock: () => number = () => performance.now()) {
    this.#disk = disk;
    this.#clock = clock;
  }

  /** Resolves after a flush that began after this call. */
  flushed(): Promise<void> {
    const asked = this.#clock();
    const alone = asked - this.#lastAsked > OFTEN_MS && !this.#flushing && this.#next === undefined;
    this.#lastAsked = asked;
    if (alone && asked > this.#waryUntil) return this.#here(asked);
    this.#next ??= this.#after(this.#running);
    return this.#next;
  }

  async #here(began: number): Promise<void> {
    try {
      this.#disk.flush();
    } finally {
      const ended = this.#clock();
      if (ended - began > QUICK_MS) this.#waryUntil = ended + WARY_MS;
    }
  }

  async #after(running: Promise<void>): Promise<void> {
    // Callers that waited for the failed flush got its error.
    await running.catch(() => {});
    this.#next = undefined;
    this.#flushing = true;
    this.#running = this.#disk.flushElsewhere().finally(() => {
      this.#flushing = false;
    });
    await this.#running;
  }
}

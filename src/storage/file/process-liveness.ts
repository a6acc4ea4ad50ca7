/** Whether processes that use the data folder are alive: each keeps a file locked while it runs. */

import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { newProcessIdentity, type ProcessIdentity, processState } from '../../lib/process-identity.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { loadSqlite } from './database.ts';
import { sqliteCode, storageFailed, storageMoved } from './file-errors.ts';

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

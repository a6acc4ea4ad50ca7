/** FileStorage: one folder on a local disk. Records, events and locks in SQLite, checkpoints as plain files. */

import { join, resolve } from 'node:path';
import type { Clock, Storage } from '../contract.ts';
import { FileCheckpoints } from './checkpoints.ts';
import { Database } from './database.ts';
import { makeFolder } from './durable.ts';
import { FileEventLog } from './event-log.ts';
import { guarded } from './failure.ts';
import { Lifelines } from './lifeline.ts';
import { FileLocks } from './locks.ts';
import { FileRecords } from './records.ts';
import { Scrap } from './scrap.ts';

export interface FileStorageOptions {
  readonly clock?: Clock;
}

export class FileStorage implements Storage {
  readonly path: string;
  readonly checkpoints: FileCheckpoints;
  readonly records: FileRecords;
  readonly events: FileEventLog;
  readonly locks: FileLocks;
  readonly #database: Database;
  readonly #lifelines: Lifelines;
  readonly #scrap: Scrap;
  #closing: Promise<void> | undefined;

  private constructor(path: string, clock: Clock) {
    const checkpoints = join(path, 'checkpoints');
    this.path = path;
    this.#database = new Database(join(path, 'cella.db'));
    this.#lifelines = new Lifelines(join(path, 'processes'));
    // No agent's folder begins with a dot.
    this.#scrap = new Scrap(join(checkpoints, '.unfinished'), this.#lifelines);
    this.checkpoints = new FileCheckpoints(checkpoints, this.#scrap);
    this.records = new FileRecords(this.#database);
    this.events = new FileEventLog(this.#database, clock);
    this.locks = new FileLocks(this.#database, this.#lifelines, clock);
  }

  /** Makes the folder where it is missing. The database is opened when it is first needed. */
  static async open(path: string, { clock = Date.now }: FileStorageOptions = {}): Promise<FileStorage> {
    const storage = new FileStorage(resolve(path), clock);
    await storage.#prepare();
    return storage;
  }

  async deleteAgent(agentKey: string): Promise<void> {
    await this.checkpoints.deleteAll(agentKey);
    await this.events.delete(agentKey);
    await this.records.delete(agentKey);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #prepare(): Promise<void> {
    await guarded('use', this.path, () => makeFolder(join(this.path, 'checkpoints')));
    await this.#sweep().catch(() => {}); // what cannot be swept waits for the next time
  }

  async #sweep(): Promise<void> {
    await this.#scrap.sweep();
    this.#lifelines.sweep();
  }

  async #close(): Promise<void> {
    await using ends = new AsyncDisposableStack();
    ends.defer(() => this.#lifelines.close());
    ends.defer(() => this.#database.close());
    ends.defer(() => this.locks.close());
    ends.defer(() => this.checkpoints.close());
  }
}

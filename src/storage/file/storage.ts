/**
 * FileStorage: one folder on a local disk. Records, events, transcripts, deps, documents and locks in SQLite;
 * checkpoints, tools, skills and artifacts as plain files.
 */

import { join, resolve } from 'node:path';
import type { BootstrapConfig } from '../bootstrap-config.ts';
import type { Clock, Lock, Storage } from '../contract.ts';
import { fencedStorage } from '../fenced.ts';
import { checkScope, StorageView } from '../view.ts';
import { FileArtifacts } from './artifacts.ts';
import { FileCheckpoints } from './checkpoints.ts';
import { Database } from './database.ts';
import { FileDeps } from './deps.ts';
import { FileDocuments } from './documents.ts';
import { makeFolder } from './durable.ts';
import { FileEventLog } from './event-log.ts';
import { guarded } from './failure.ts';
import { Lifelines } from './lifeline.ts';
import { FileLocks } from './locks.ts';
import { FileRecords } from './records.ts';
import { FileScopes, placeAt } from './scopes.ts';
import type { Scrap } from './scrap.ts';
import { FileTexts } from './texts.ts';
import { FileTranscripts } from './transcripts.ts';

export interface FileStorageOptions {
  readonly clock?: Clock;
}

export class FileStorage implements Storage {
  readonly path: string;
  readonly checkpoints: FileCheckpoints;
  readonly records: FileRecords;
  readonly events: FileEventLog;
  readonly locks: FileLocks;
  readonly transcripts: FileTranscripts;
  readonly tools: FileTexts;
  readonly skills: FileTexts;
  readonly artifacts: FileArtifacts;
  readonly deps: FileDeps;
  readonly documents: FileDocuments;
  readonly #database: Database;
  readonly #lifelines: Lifelines;
  readonly #scopes: FileScopes;
  readonly #scraps: Scrap[] = [];
  #closing: Promise<void> | undefined;

  private constructor(path: string, clock: Clock) {
    this.path = path;
    this.#database = new Database(join(path, 'cella.db'));
    this.#lifelines = new Lifelines(join(path, 'processes'));
    const checkpoints = this.#placeAt('checkpoints');
    const artifacts = this.#placeAt('artifacts');
    this.checkpoints = new FileCheckpoints(checkpoints.folder, checkpoints.scrap);
    this.records = new FileRecords(this.#database);
    this.events = new FileEventLog(this.#database, clock);
    this.locks = new FileLocks(this.#database, this.#lifelines, clock);
    this.transcripts = new FileTranscripts(this.#database);
    this.tools = new FileTexts({ ...this.#placeAt('tools'), what: 'tool', ending: '.yaml' });
    this.skills = new FileTexts({ ...this.#placeAt('skills'), what: 'skill', ending: '.py' });
    const turns = new FileLocks(this.#database, this.#lifelines, clock, (name) => `artifact ${JSON.stringify(name)}`);
    this.artifacts = new FileArtifacts({ ...artifacts, turns, clock });
    this.deps = new FileDeps(this.#database);
    this.documents = new FileDocuments(this.#database);
    const ground = { ...this.#placeAt('scopes'), database: this.#database, lifelines: this.#lifelines, clock };
    this.#scopes = new FileScopes(ground);
  }

  /** Makes the folder where it is missing. The database is opened when it is first needed. */
  static async open(path: string, { clock = Date.now }: FileStorageOptions = {}): Promise<FileStorage> {
    const storage = new FileStorage(resolve(path), clock);
    await storage.#prepare();
    return storage;
  }

  /** Whether the folder still leads to what is open; `replaced`: to somebody else's. */
  get place(): Database['place'] {
    return this.#database.place;
  }

  /** A lock ends with its process and not before: nobody else can have it while somebody writes here. */
  fenced(lock: Lock): Storage {
    const { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents } = this;
    const stores = { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents };
    const deleteAgent = (agentKey: string) => this.deleteAgent(agentKey);
    return fencedStorage(this, lock, { ...stores, scopes: this.#scopes, deleteAgent, close: async () => {} });
  }

  scope(name: string): Storage {
    return new StorageView(this, checkScope(name), this.#scopes.of(name));
  }

  async deleteScope(name: string): Promise<void> {
    await this.#scopes.delete(checkScope(name));
  }

  toBootstrapConfig(): BootstrapConfig {
    return { type: 'file', path: this.path };
  }

  async deleteAgent(agentKey: string): Promise<void> {
    await this.checkpoints.deleteAll(agentKey);
    await this.events.delete(agentKey);
    await this.transcripts.deleteAll(agentKey);
    await this.records.delete(agentKey);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #placeAt(name: string): { folder: string; scrap: Scrap } {
    const place = placeAt(join(this.path, name), this.#lifelines);
    this.#scraps.push(place.scrap);
    return place;
  }

  async #prepare(): Promise<void> {
    await guarded('use', this.path, () => makeFolder(join(this.path, 'checkpoints')));
    await this.#sweep().catch(() => {}); // what cannot be swept waits for the next time
  }

  async #sweep(): Promise<void> {
    for (const scrap of this.#scraps) await scrap.sweep();
    this.#lifelines.sweep();
  }

  async #close(): Promise<void> {
    await using ends = new AsyncDisposableStack();
    ends.defer(() => this.#lifelines.close());
    ends.defer(() => this.#database.close());
    ends.defer(() => this.locks.close());
    ends.defer(() => this.checkpoints.close());
    ends.defer(() => this.artifacts.close());
    ends.defer(() => this.#scopes.close());
  }
}

/**
 * FileStorage: one folder on a local disk. Records, events, deps, documents and locks in SQLite; checkpoints, transcripts,
 * tools, skills and artifacts as plain files.
 */

import { join, resolve } from 'node:path';
import { makePrivateFolder } from '../../lib/private-file.ts';
import type { BootstrapConfig, Clock, Lock, Storage } from '../contract.ts';
import { folderName } from '../validation.ts';
import { checkScope, deleteKeyFrom, fencedStorage, type ScopedStores, scopedStorage } from '../views.ts';
import { FileArtifacts } from './artifact-store.ts';
import { FileCheckpoints } from './checkpoint-store.ts';
import { Database } from './database.ts';
import { FileEventLog } from './event-log.ts';
import { guarded } from './file-errors.ts';
import { FileLocks } from './locks.ts';
import { ProcessLiveness } from './process-liveness.ts';
import { StagingFolder } from './staging-folder.ts';
import { FileDeps, FileDocuments, FileRecords } from './tables.ts';
import { FileTexts } from './text-files.ts';
import { FileTranscripts } from './transcripts.ts';

interface FileStorageOptions {
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
  readonly #liveness: ProcessLiveness;
  readonly #scopes: FileStorageScopes;
  readonly #stagingFolders: StagingFolder[] = [];
  #closing: Promise<void> | undefined;

  private constructor(path: string, clock: Clock) {
    this.path = path;
    this.#database = new Database(join(path, 'cella.db'));
    this.#liveness = new ProcessLiveness(join(path, 'processes'));
    const checkpoints = this.#subfolder('checkpoints');
    const artifacts = this.#subfolder('artifacts');
    this.checkpoints = new FileCheckpoints(checkpoints.folder, checkpoints.staging);
    this.records = new FileRecords(this.#database);
    this.events = new FileEventLog(this.#database, clock);
    this.locks = new FileLocks(this.#database, this.#liveness, clock);
    this.transcripts = new FileTranscripts({ ...this.#subfolder('transcripts'), database: this.#database });
    this.tools = new FileTexts({ ...this.#subfolder('tools'), what: 'tool', ending: '.yaml' });
    this.skills = new FileTexts({ ...this.#subfolder('skills'), what: 'skill', ending: '.py' });
    const artifactLocks = new FileLocks(
      this.#database,
      this.#liveness,
      clock,
      (name) => `artifact ${JSON.stringify(name)}`,
    );
    this.artifacts = new FileArtifacts({ ...artifacts, locks: artifactLocks, clock });
    this.deps = new FileDeps(this.#database);
    this.documents = new FileDocuments(this.#database);
    const scopes = { ...this.#subfolder('scopes'), database: this.#database, liveness: this.#liveness, clock };
    this.#scopes = new FileStorageScopes(scopes);
  }

  /** Makes the folder if it is missing. The database is opened when it is first needed. */
  static async open(path: string, { clock = Date.now }: FileStorageOptions = {}): Promise<FileStorage> {
    const storage = new FileStorage(resolve(path), clock);
    await storage.#prepare();
    return storage;
  }

  /** Whether the path still leads to the open storage. `replaced`: it leads to another one. */
  get location(): Database['location'] {
    return this.#database.location;
  }

  /** Needs no checks: a lock ends with its process, so no other process can hold it while this one writes. */
  fenced(lock: Lock): Storage {
    const deleteKey = (agentKey: string) => this.deleteKey(agentKey);
    return fencedStorage(this, lock, { ...this, scopes: this.#scopes, deleteKey, close: async () => {} });
  }

  scope(name: string): Storage {
    return scopedStorage(this, checkScope(name), this.#scopes.of(name));
  }

  async deleteScope(name: string): Promise<void> {
    await this.#scopes.delete(checkScope(name));
  }

  toBootstrapConfig(): BootstrapConfig {
    return { type: 'file', path: this.path };
  }

  deleteKey(agentKey: string): Promise<void> {
    return deleteKeyFrom(this, agentKey);
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #subfolder(name: string): { folder: string; staging: StagingFolder } {
    const subfolder = folderWithStaging(join(this.path, name), this.#liveness);
    this.#stagingFolders.push(subfolder.staging);
    return subfolder;
  }

  async #prepare(): Promise<void> {
    await guarded('use', this.path, () => makePrivateFolder(join(this.path, 'checkpoints')));
    await this.#sweep().catch(() => {}); // what cannot be swept waits for the next time
  }

  async #sweep(): Promise<void> {
    for (const staging of this.#stagingFolders) await staging.sweep();
    this.#liveness.sweep();
  }

  async #close(): Promise<void> {
    await using ends = new AsyncDisposableStack();
    ends.defer(() => this.#liveness.close());
    ends.defer(() => this.#database.close());
    ends.defer(() => this.locks.close());
    ends.defer(() => this.checkpoints.close());
    ends.defer(() => this.artifacts.close());
    ends.defer(() => this.#scopes.close());
  }
}

interface ScopesOptions {
  /** Contains one folder per scope. */
  readonly folder: string;
  /** Holds scopes that are being removed. */
  readonly staging: StagingFolder;
  readonly database: Database;
  readonly liveness: ProcessLiveness;
  readonly clock: Clock;
}

interface FileScope extends ScopedStores {
  readonly artifacts: FileArtifacts;
  readonly deps: FileDeps;
  /** Settles when the leftovers of ended processes are removed. */
  readonly swept: Promise<unknown>;
}

/** Scopes: each has a folder for skills and artifacts, and its own rows in the deps table. */
class FileStorageScopes {
  readonly #options: ScopesOptions;
  readonly #open = new Map<string, FileScope>();

  constructor(options: ScopesOptions) {
    this.#options = options;
  }

  of(name: string): FileScope {
    const known = this.#open.get(name);
    if (known) return known;
    const scope = openScope(name, this.#pathOf(name), this.#options);
    this.#open.set(name, scope);
    return scope;
  }

  async delete(name: string): Promise<void> {
    const { artifacts, deps } = this.of(name);
    this.#open.delete(name);
    await artifacts.close();
    await deps.deleteAll();
    const path = this.#pathOf(name);
    await guarded('delete', path, () => this.#options.staging.discard(path));
  }

  async close(): Promise<void> {
    for (const { artifacts, swept } of this.#open.values()) {
      await artifacts.close();
      await swept;
    }
  }

  #pathOf(name: string): string {
    return join(this.#options.folder, folderName(name));
  }
}

function openScope(name: string, path: string, { database, liveness, clock }: ScopesOptions): FileScope {
  const skills = folderWithStaging(join(path, 'skills'), liveness);
  const artifacts = folderWithStaging(join(path, 'artifacts'), liveness);
  // Encoded differently from agent keys and from artifacts without a scope, so they cannot collide.
  const column = (artifact: string) => `scope ${JSON.stringify(name)} artifact ${JSON.stringify(artifact)}`;
  const locks = new FileLocks(database, liveness, clock, column);
  const sweep = async () => {
    await skills.staging.sweep();
    await artifacts.staging.sweep();
  };
  return {
    skills: new FileTexts({ ...skills, what: 'skill', ending: '.py' }),
    artifacts: new FileArtifacts({ ...artifacts, locks, clock }),
    deps: new FileDeps(database, name),
    swept: sweep().catch(() => {}), // what cannot be swept waits for the next time
  };
}

/** The folder of a key and the files of tools, skills and artifacts never begin with a dot. */
function folderWithStaging(folder: string, liveness: ProcessLiveness): { folder: string; staging: StagingFolder } {
  return { folder, staging: new StagingFolder(join(folder, '.unfinished'), liveness) };
}

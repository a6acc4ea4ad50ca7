/** A storage with some of its parts replaced: how a scope is the storage that it belongs to, with namespaces of its own. */

import { CellaError } from '../protocol/errors.ts';
import type { BootstrapConfig } from './bootstrap-config.ts';
import type { ArtifactStore, DepsStore, Lock, Storage, TextStore } from './contract.ts';

export interface ViewParts {
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
}

export class StorageView implements Storage {
  readonly checkpoints: Storage['checkpoints'];
  readonly records: Storage['records'];
  readonly events: Storage['events'];
  readonly locks: Storage['locks'];
  readonly transcripts: Storage['transcripts'];
  readonly tools: TextStore;
  readonly documents: Storage['documents'];
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
  readonly #whole: Storage;
  readonly #scope: string;
  readonly #again: (whole: Storage) => Storage;

  /** `again` makes the same view of another storage. */
  constructor(
    whole: Storage,
    scope: string,
    { skills, artifacts, deps }: ViewParts,
    again = (other: Storage) => other.scope(scope),
  ) {
    this.#again = again;
    this.#whole = whole;
    this.#scope = scope;
    this.checkpoints = whole.checkpoints;
    this.records = whole.records;
    this.events = whole.events;
    this.locks = whole.locks;
    this.transcripts = whole.transcripts;
    this.tools = whole.tools;
    this.documents = whole.documents;
    this.skills = skills;
    this.artifacts = artifacts;
    this.deps = deps;
  }

  fenced(lock: Lock): Storage {
    return this.#again(this.#whole.fenced(lock));
  }

  /** Scopes do not nest: this is the same as asking the whole storage. */
  scope(name: string): Storage {
    return this.#whole.scope(name);
  }

  deleteScope(name: string): Promise<void> {
    return this.#whole.deleteScope(name);
  }

  toBootstrapConfig(): BootstrapConfig {
    return { ...this.#whole.toBootstrapConfig(), scope: this.#scope };
  }

  deleteAgent(agentKey: string): Promise<void> {
    return this.#whole.deleteAgent(agentKey);
  }

  close(): Promise<void> {
    return this.#whole.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export function checkScope(name: string): string {
  if (name !== '') return name;
  throw new CellaError('INVALID_NAME', 'A scope of a storage must have a name.');
}

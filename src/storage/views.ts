/** Views of a storage: a scope, a storage fenced by a lock, and a text store in front of another. */

import { sortedInSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ArtifactStore, BootstrapConfig, DepsStore, Lock, Storage, StoredText, TextStore } from './contract.ts';

export interface ScopedStores {
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
}

/** A storage with the skills, artifacts and deps of one scope. */
export class ScopedStorage implements Storage {
  readonly checkpoints: Storage['checkpoints'];
  readonly records: Storage['records'];
  readonly events: Storage['events'];
  readonly lock: Storage['lock'];
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

  /** `again` creates the same view of another storage. */
  constructor(
    whole: Storage,
    scope: string,
    { skills, artifacts, deps }: ScopedStores,
    again = (other: Storage) => other.scope(scope),
  ) {
    this.#again = again;
    this.#whole = whole;
    this.#scope = scope;
    this.checkpoints = whole.checkpoints;
    this.records = whole.records;
    this.events = whole.events;
    this.lock = whole.lock;
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

  /** Scopes do not nest: returns the scope of the whole storage. */
  scope(name: string): Storage {
    return this.#whole.scope(name);
  }

  deleteScope(name: string): Promise<void> {
    return this.#whole.deleteScope(name);
  }

  toBootstrapConfig(): BootstrapConfig {
    return { ...this.#whole.toBootstrapConfig(), scope: this.#scope };
  }

  deleteKey(agentKey: string): Promise<void> {
    return this.#whole.deleteKey(agentKey);
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

type OwnMembers = 'locks' | 'fenced' | 'scope' | 'deleteScope' | 'toBootstrapConfig' | typeof Symbol.asyncDispose;
type FencedStores = Omit<Storage, OwnMembers> & {
  readonly scopes: { of(name: string): ScopedStores; delete(name: string): Promise<void> };
};

/** `whole` is the storage that the lock belongs to. */
export function fencedStorage(whole: Storage, lock: Lock, parts: FencedStores): Storage {
  const { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents } = parts;
  const stores = { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents };
  const close = () => parts.close();
  const own: Storage = {
    ...stores,
    lock,
    locks: whole.locks,
    // Applies only to this lock. Locks of other keys are acquired as usual.
    fenced: (other) => whole.fenced(other),
    scope: (name) => new ScopedStorage(own, checkScope(name), parts.scopes.of(name)),
    deleteScope: (name) => parts.scopes.delete(checkScope(name)),
    toBootstrapConfig: () => whole.toBootstrapConfig(),
    deleteKey: (agentKey) => parts.deleteKey(agentKey),
    close,
    [Symbol.asyncDispose]: close,
  };
  return own;
}

/** A user's own texts in front of shared ones. Shared texts are read if there is no own text of the name, and never changed. */
export class OverlayTextStore implements TextStore {
  readonly #own: TextStore;
  readonly #shared: TextStore;

  constructor(own: TextStore, shared: TextStore) {
    this.#own = own;
    this.#shared = shared;
  }

  async list(): Promise<StoredText[]> {
    const [own, others] = await Promise.all([this.#own.list(), this.#shared.list()]);
    const taken = new Set(own.map(({ name }) => name));
    const shared = others.filter(({ name }) => !taken.has(name)).map(toShared);
    return await sortedInSlices([...own, ...shared], (one, other) => (one.name < other.name ? -1 : 1));
  }

  async get(name: string): Promise<StoredText | undefined> {
    const own = await this.#own.get(name);
    if (own) return own;
    const other = await this.#shared.get(name);
    return other && toShared(other);
  }

  /** A shared text does not take the name, because the user's own text has priority. */
  put(name: string, text: string, options?: { readonly ifAbsent?: boolean }): Promise<boolean> {
    return this.#own.put(name, text, options);
  }

  delete(name: string): Promise<boolean> {
    return this.#own.delete(name);
  }

  /** Counts only the user's own texts. */
  holds(count: number): Promise<boolean> {
    return this.#own.holds(count);
  }

  async version(): Promise<string> {
    return (await Promise.all([this.#own.version(), this.#shared.version()])).join(' ');
  }
}

const toShared = (text: StoredText): StoredText => ({ ...text, shared: true });

/** Views of a storage: a scope, a storage fenced by a lock, and a text store in front of another. */

import { sortedInSlices } from '../lib/event-loop.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ArtifactStore, DepsStore, Lock, Storage, StoredText, TextStore } from './contract.ts';

export interface ScopedStores {
  readonly skills: TextStore;
  readonly artifacts: ArtifactStore;
  readonly deps: DepsStore;
}

type Stores = Omit<
  Storage,
  'lock' | 'locks' | 'fenced' | 'scope' | 'deleteScope' | 'toBootstrapConfig' | 'deleteKey' | 'close' | symbol
>;

/** Only the stores, so that a view gets no other members of a storage. */
function storesOf(storage: Stores): Stores {
  const { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents } = storage;
  return { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents };
}

/** The base storage with the skills, artifacts and deps of one scope. `rewrap` creates the same view of another base. */
export function scopedStorage(
  base: Storage,
  scope: string,
  { skills, artifacts, deps }: ScopedStores,
  rewrap = (other: Storage) => other.scope(scope),
): Storage {
  const close = () => base.close();
  return {
    ...storesOf(base),
    skills,
    artifacts,
    deps,
    lock: base.lock,
    locks: base.locks,
    fenced: (lock) => rewrap(base.fenced(lock)),
    // Scopes do not nest: this is a scope of the base.
    scope: (name) => base.scope(name),
    deleteScope: (name) => base.deleteScope(name),
    toBootstrapConfig: () => ({ ...base.toBootstrapConfig(), scope }),
    deleteKey: (agentKey) => base.deleteKey(agentKey),
    close,
    [Symbol.asyncDispose]: close,
  };
}

export function checkScope(name: string): string {
  if (name !== '') return name;
  throw new CellaError('INVALID_NAME', 'A scope of a storage must have a name.');
}

type FencedStores = Stores &
  Pick<Storage, 'deleteKey' | 'close'> & {
    readonly scopes: { of(name: string): ScopedStores; delete(name: string): Promise<void> };
  };

/** `base` is the storage that the lock belongs to. */
export function fencedStorage(base: Storage, lock: Lock, parts: FencedStores): Storage {
  const close = () => parts.close();
  const own: Storage = {
    ...storesOf(parts),
    lock,
    locks: base.locks,
    // Applies only to this lock. Locks of other keys are acquired as usual.
    fenced: (other) => base.fenced(other),
    scope: (name) => scopedStorage(own, checkScope(name), parts.scopes.of(name)),
    deleteScope: (name) => parts.scopes.delete(checkScope(name)),
    toBootstrapConfig: () => base.toBootstrapConfig(),
    deleteKey: (agentKey) => parts.deleteKey(agentKey),
    close,
    [Symbol.asyncDispose]: close,
  };
  return own;
}

interface KeyStores extends Pick<Storage, 'events' | 'records'> {
  readonly checkpoints: { deleteAll(agentKey: string): Promise<void> };
  readonly transcripts: { deleteAll(agentKey: string): Promise<void> };
}

/** Deletes the record last, because it is what lists the key. */
export async function deleteKeyFrom(stores: KeyStores, agentKey: string): Promise<void> {
  await stores.checkpoints.deleteAll(agentKey);
  await stores.events.delete(agentKey);
  await stores.transcripts.deleteAll(agentKey);
  await stores.records.delete(agentKey);
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

/** What `fenced` gives: the parts of a storage that write for one lock, and locks that know it. */

import type { AcquireOptions, Lock, LockHolder, Locks, Storage } from './contract.ts';
import { HeldLock } from './held-lock.ts';
import { busy, leaseLost, ownCommand } from './lock-words.ts';
import { checkScope, StorageView, type ViewParts } from './view.ts';

type Others = 'locks' | 'fenced' | 'scope' | 'deleteScope' | 'toBootstrapConfig' | typeof Symbol.asyncDispose;
type Parts = Omit<Storage, Others> & {
  readonly scopes: { of(name: string): ViewParts; delete(name: string): Promise<void> };
};

/** `whole` is the storage that the lock is one of. */
export function fencedStorage(whole: Storage, lock: Lock, parts: Parts): Storage {
  const { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents } = parts;
  const stores = { checkpoints, records, events, transcripts, tools, skills, artifacts, deps, documents };
  const close = () => parts.close();
  const within = new LocksWithin(whole.locks, lock);
  const own: Storage = {
    ...stores,
    locks: within,
    // One lock at a time: that of another key does not need this one.
    fenced: (other) => whole.fenced(other.key === lock.key ? lock : other),
    scope: (name) => new StorageView(own, checkScope(name), parts.scopes.of(name)),
    deleteScope: (name) => parts.scopes.delete(checkScope(name)),
    toBootstrapConfig: () => whole.toBootstrapConfig(),
    deleteAgent: (agentKey) => parts.deleteAgent(agentKey),
    close,
    [Symbol.asyncDispose]: close,
  };
  return own;
}

/** The key of the lock is given out again, to one at a time. */
class LocksWithin implements Locks {
  readonly #locks: Locks;
  readonly #lock: Lock;
  #taken = false;

  constructor(locks: Locks, lock: Lock) {
    this.#locks = locks;
    this.#lock = lock;
  }

  get id(): string {
    return this.#locks.id;
  }

  async acquire(agentKey: string, options?: AcquireOptions): Promise<Lock> {
    if (agentKey !== this.#lock.key) return await this.#locks.acquire(agentKey, options);
    if (!this.#lock.held) throw leaseLost(agentKey);
    if (this.#taken) throw busy(agentKey, { ...(await this.#holderHere()), command: ownCommand() });
    this.#taken = true;
    const lock = new HeldLock(agentKey, async () => {
      unwatch();
      this.#taken = false;
    });
    const unwatch = this.#lock.watch((state) => {
      if (state !== 'released') lock.become(state);
    });
    return lock;
  }

  holder(agentKey: string): Promise<LockHolder | undefined> {
    return this.#locks.holder(agentKey);
  }

  async #holderHere(): Promise<LockHolder> {
    const known = await this.#locks.holder(this.#lock.key);
    return known ?? { id: this.id, pid: process.pid, host: '', since: 0 };
  }
}

/**
 * The storage as the sessions of a user have it. Each user has skills, artifacts and deps of its own, and no other's;
 * `local`, who is the operator, has those of sessions without a server. Its skills can be used by all.
 */

import type { Storage } from '../../storage/contract.ts';
import { OverlayTextStore, ScopedStorage } from '../../storage/views.ts';
import { isLocal } from './ids.ts';

export function storageOf(storage: Storage, ownerId: string): Storage {
  if (isLocal(ownerId)) return storage;
  const { skills, artifacts, deps } = storage.scope(ownerId);
  const layered = new OverlayTextStore(skills, storage.skills);
  const again = (other: Storage) => storageOf(other, ownerId);
  return new ScopedStorage(storage, ownerId, { skills: layered, artifacts, deps }, again);
}

/** How much a user keeps in it, beside what its sessions do. */
export async function keptBytes(storage: Storage, ownerId: string): Promise<number> {
  const { artifacts, skills } = isLocal(ownerId) ? storage : storage.scope(ownerId);
  const sizes = [
    ...(await artifacts.list()).map(({ size }) => size),
    ...(await skills.list()).map(({ text }) => Buffer.byteLength(text)),
  ];
  return sizes.reduce((sum, size) => sum + size, 0);
}

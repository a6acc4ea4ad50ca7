/** The storage and the namespaces of a user. Without a kernel, namespaces stay open for a while after use. */

import { RefCounted } from '../../lib/ref-counted.ts';
import { type OpenedNamespaces, openNamespaces } from '../../session/session-namespaces.ts';
import type { Storage } from '../../storage/contract.ts';
import { OverlayTextStore, scopedStorage } from '../../storage/views.ts';
import { isLocalUser } from '../ids.ts';
import type { SessionServices } from './session-types.ts';

type UserNamespacesServices = Pick<SessionServices, 'storage' | 'dataDir' | 'session'>;

const KEEP_OPEN_MS = 10_000;
/** The number of users whose namespaces stay open; namespaces in use are never closed. */
const MAX_OPEN = 32;

export class UserNamespaces implements AsyncDisposable {
  readonly #services: UserNamespacesServices;
  /** By user. */
  readonly #open = new RefCounted<Promise<OpenedNamespaces>>({
    idleMs: KEEP_OPEN_MS,
    maxOpen: MAX_OPEN,
    close: async (opening) => await (await opening.catch(() => undefined))?.[Symbol.asyncDispose](),
  });

  constructor(services: UserNamespacesServices) {
    this.#services = services;
  }

  /** The caller disposes of it. */
  async of(ownerId: string): Promise<OpenedNamespaces> {
    const { resource, release } = this.#open.acquire(ownerId, () => openUserNamespaces(this.#services, ownerId));
    try {
      const { tools, skills, artifacts, deps } = await resource;
      return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: async () => release() };
    } catch (error) {
      this.#open.forget(ownerId, resource);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open.closeAll();
  }
}

async function openUserNamespaces(
  { storage, dataDir, session }: UserNamespacesServices,
  ownerId: string,
): Promise<OpenedNamespaces> {
  const { python, packages, toolFolders, credentials } = session;
  return await openNamespaces({
    dataDir,
    storage: userStorage(storage, ownerId),
    python,
    packages,
    toolFolders,
    credentials,
  });
}

export function userStorage(storage: Storage, ownerId: string): Storage {
  if (isLocalUser(ownerId)) return storage;
  const { skills, artifacts, deps } = storage.scope(ownerId);
  const layered = new OverlayTextStore(skills, storage.skills);
  const rewrap = (other: Storage) => userStorage(other, ownerId);
  return scopedStorage(storage, ownerId, { skills: layered, artifacts, deps }, rewrap);
}

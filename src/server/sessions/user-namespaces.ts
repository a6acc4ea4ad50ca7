/** The storage and the four namespaces as one user has them, without a kernel. They stay open for a while after use. */

import { type OpenedNamespaces, openNamespaces } from '../../session/session-namespaces.ts';
import type { Storage } from '../../storage/contract.ts';
import { OverlayTextStore, ScopedStorage } from '../../storage/views.ts';
import { isLocalUser } from '../ids.ts';
import type { SessionServices } from './session-services.ts';

type UserNamespacesServices = Pick<SessionServices, 'storage' | 'dataDir' | 'session'>;

const KEEP_OPEN_MS = 10_000;
/** Of users at a time; those that are in use are never closed. */
const MAX_OPEN = 32;

interface OpenEntry {
  readonly opened: Promise<OpenedNamespaces>;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

export class UserNamespaces implements AsyncDisposable {
  readonly #services: UserNamespacesServices;
  /** By user, the one that was used last at the end. */
  readonly #open = new Map<string, OpenEntry>();

  constructor(place: UserNamespacesServices) {
    this.#services = place;
  }

  /** To be disposed of by whoever asks. */
  async of(ownerId: string): Promise<OpenedNamespaces> {
    const kept = this.#open.get(ownerId) ?? {
      opened: openUserNamespaces(this.#services, ownerId),
      users: 0,
      timer: undefined,
    };
    clearTimeout(kept.timer);
    kept.users += 1;
    this.#open.delete(ownerId);
    this.#open.set(ownerId, kept);
    let given = false;
    const giveBack = async () => {
      if (given) return;
      given = true;
      kept.users -= 1;
      await this.#closeLater(ownerId, kept);
    };
    try {
      const { tools, skills, artifacts, deps } = await kept.opened;
      return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: giveBack };
    } catch (error) {
      if (this.#open.get(ownerId) === kept) this.#open.delete(ownerId);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#open.keys()].map((ownerId) => this.#close(ownerId)));
  }

  async #closeLater(ownerId: string, kept: OpenEntry): Promise<void> {
    if (kept.users > 0) return;
    kept.timer = setTimeout(() => void this.#close(ownerId), KEEP_OPEN_MS).unref();
    if (this.#open.size <= MAX_OPEN) return;
    const [oldest] = [...this.#open].find(([, { users }]) => users === 0) ?? [];
    if (oldest !== undefined) await this.#close(oldest);
  }

  async #close(ownerId: string): Promise<void> {
    const kept = this.#open.get(ownerId);
    this.#open.delete(ownerId);
    clearTimeout(kept?.timer);
    // One that could not be opened has told whoever waited for it.
    await (await kept?.opened.catch(() => undefined))?.[Symbol.asyncDispose]();
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
  const again = (other: Storage) => userStorage(other, ownerId);
  return new ScopedStorage(storage, ownerId, { skills: layered, artifacts, deps }, again);
}

/** How much a user keeps in it, beside what its sessions do. */
export async function userStoredBytes(storage: Storage, ownerId: string): Promise<number> {
  const { artifacts, skills } = isLocalUser(ownerId) ? storage : storage.scope(ownerId);
  const sizes = [
    ...(await artifacts.list()).map(({ size }) => size),
    ...(await skills.list()).map(({ text }) => Buffer.byteLength(text)),
  ];
  return sizes.reduce((sum, size) => sum + size, 0);
}

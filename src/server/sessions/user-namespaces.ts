/**
 * The storage and the four namespaces as one user has them, without a kernel, open for a while after use; and all that a
 * user has on this server.
 */

import { join } from 'node:path';
import { discardedFolders } from '../../environments/files/remove-tree.ts';
import { RefCounted } from '../../lib/ref-counted.ts';
import { everyArtifact } from '../../namespaces/artifacts/artifacts-namespace.ts';
import type { SessionInfo, SessionQuery } from '../../protocol/session-info.ts';
import { type OpenedNamespaces, openNamespaces } from '../../session/session-namespaces.ts';
import type { Storage } from '../../storage/contract.ts';
import { folderName, jsonLength } from '../../storage/validation.ts';
import { OverlayTextStore, scopedStorage } from '../../storage/views.ts';
import { isLocalUser, storageKeyOf } from '../ids.ts';
import type { StoredData } from '../quotas/storage-quota.ts';
import type { SessionManager } from './session-manager.ts';
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

/** What a user stores in it, apart from their sessions. */
async function userStoredBytes(storage: Storage, ownerId: string): Promise<number> {
  const { artifacts, skills } = isLocalUser(ownerId) ? storage : storage.scope(ownerId);
  let bytes = await artifacts.unlistedBytes();
  for await (const info of everyArtifact(artifacts)) bytes += info.size + jsonLength(info);
  for (const { text } of await skills.list()) bytes += Buffer.byteLength(text);
  return bytes;
}

interface UserDataContext {
  readonly sessions: SessionManager;
  readonly storage: Storage;
  readonly dataDir: string;
}

export async function storedDataOf(
  { sessions: manager, storage, dataDir }: UserDataContext,
  userId: string,
): Promise<StoredData> {
  const sessions = await sessionsOf(manager, userId);
  const agentKeys = sessions.map(({ agentKey }) => storageKeyOf(userId, agentKey));
  const folders = [
    ...agentKeys.map((key) => join(dataDir, 'agents', folderName(key))),
    ...sessions.map(({ id }) => join(dataDir, 'outputs', id)),
    ...(await discardedFolders(join(dataDir, 'agents'), userId)),
  ];
  return { agentKeys, folders, keptBytes: await userStoredBytes(storage, userId) };
}

const PAGE = 1000;

async function sessionsOf(manager: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  for await (const session of all(manager, { ownerId })) sessions.push(session);
  return sessions;
}

/** Those of one user, and what was forked from them, which works in their workspaces; each comes after what it was forked from. */
export async function sessionsWithForks(manager: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions = new Map((await sessionsOf(manager, ownerId)).map((session) => [session.id, session]));
  // It grows while it is gone through.
  for (const [id] of sessions) for (const fork of await manager.forksOf(id)) sessions.set(fork.id, fork);
  return [...sessions.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

async function* all(manager: SessionManager, query: SessionQuery): AsyncGenerator<SessionInfo, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await manager.list({ ...query, limit: PAGE, cursor });
    yield* page.sessions;
    cursor = page.next;
  } while (cursor !== undefined);
}

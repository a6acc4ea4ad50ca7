/** What a user has on this server: sessions, folders and stored bytes. */

import { join } from 'node:path';
import { discardedFolders } from '../environments/files/remove-tree.ts';
import type { SessionInfo, SessionQuery } from '../protocol/session-info.ts';
import type { Storage } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import { storageKeyOf } from './ids.ts';
import type { StoredData } from './quotas/storage-quota.ts';
import type { SessionManager } from './sessions/session-manager.ts';
import { userStoredBytes } from './sessions/user-namespaces.ts';

interface UserDataContext {
  readonly host: SessionManager;
  readonly storage: Storage;
  readonly dataDir: string;
}

export async function storedDataOf({ host, storage, dataDir }: UserDataContext, userId: string): Promise<StoredData> {
  const sessions = await sessionsOf(host, userId);
  const agentKeys = sessions.map(({ agentKey }) => storageKeyOf(userId, agentKey));
  const folders = [
    ...agentKeys.map((key) => join(dataDir, 'agents', folderName(key))),
    ...sessions.map(({ id }) => join(dataDir, 'outputs', id)),
    ...(await discardedFolders(join(dataDir, 'agents'), userId)),
  ];
  return { agentKeys, folders, keptBytes: await userStoredBytes(storage, userId) };
}

const PAGE = 1000;

async function sessionsOf(host: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions: SessionInfo[] = [];
  for await (const session of all(host, { ownerId })) sessions.push(session);
  return sessions;
}

/** Those of one user, and what was forked from them, which works in their workspaces; each comes after what it was forked from. */
export async function sessionsWithForks(host: SessionManager, ownerId: string): Promise<SessionInfo[]> {
  const sessions = new Map((await sessionsOf(host, ownerId)).map((session) => [session.id, session]));
  // It grows while it is gone through.
  for (const [id] of sessions) for (const fork of await host.forksOf(id)) sessions.set(fork.id, fork);
  return [...sessions.values()].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

async function* all(host: SessionManager, query: SessionQuery): AsyncGenerator<SessionInfo, void, undefined> {
  let cursor: string | undefined;
  do {
    const page = await host.list({ ...query, limit: PAGE, cursor });
    yield* page.sessions;
    cursor = page.next;
  } while (cursor !== undefined);
}

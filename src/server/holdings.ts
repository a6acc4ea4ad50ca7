/** What a user has on the disk and in storage, by its sessions and in its namespaces. */

import { join } from 'node:path';
import { discardedFolders } from '../environments/files/remove-tree.ts';
import type { Storage } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import type { Holdings } from './access/storage-quota.ts';
import { storageKeyOf } from './ids.ts';
import type { SessionManager } from './sessions/session-types.ts';
import { userStoredBytes } from './sessions/user-namespaces.ts';
import { sessionsOf } from './sessions-of.ts';

interface Places {
  readonly host: SessionManager;
  readonly storage: Storage;
  readonly dataDir: string;
}

export async function holdingsOf({ host, storage, dataDir }: Places, userId: string): Promise<Holdings> {
  const sessions = await sessionsOf(host, userId);
  const agentKeys = sessions.map(({ agentKey }) => storageKeyOf(userId, agentKey));
  const folders = [
    ...agentKeys.map((key) => join(dataDir, 'agents', folderName(key))),
    ...sessions.map(({ id }) => join(dataDir, 'outputs', id)),
    ...(await discardedFolders(join(dataDir, 'agents'), userId)),
  ];
  return { agentKeys, folders, keptBytes: await userStoredBytes(storage, userId) };
}

/** What a user has on the disk and in storage, by its sessions. */

import { join } from 'node:path';
import { folderName } from '../storage/folder-name.ts';
import type { Holdings } from './access/storage-quota.ts';
import type { SessionHost } from './sessions/contract.ts';
import { storageKeyOf } from './sessions/ids.ts';
import { sessionsOf } from './sessions-of.ts';

export async function holdingsOf(host: SessionHost, dataDir: string, userId: string): Promise<Holdings> {
  const agentKeys = (await sessionsOf(host, userId)).map(({ agentKey }) => storageKeyOf(userId, agentKey));
  return { agentKeys, folders: agentKeys.map((key) => join(dataDir, 'agents', folderName(key))) };
}

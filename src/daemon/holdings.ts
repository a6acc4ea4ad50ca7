/** What a user has on the disk and in storage, by its sessions. */

import { join } from 'node:path';
import { folderName } from '../storage/folder-name.ts';
import type { Holdings } from './access/storage-quota.ts';
import type { SessionHost } from './sessions/contract.ts';
import { storageKeyOf } from './sessions/ids.ts';

const PAGE = 1000;

export async function holdingsOf(host: SessionHost, dataDir: string, userId: string): Promise<Holdings> {
  const agentKeys: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await host.list({ ownerId: userId, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
    agentKeys.push(...page.sessions.map(({ agentKey }) => storageKeyOf(userId, agentKey)));
    cursor = page.next;
  } while (cursor !== undefined);
  return { agentKeys, folders: agentKeys.map((key) => join(dataDir, 'agents', folderName(key))) };
}

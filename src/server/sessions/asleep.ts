/** What can be told of a session whose kernel sleeps, without waking it: storage and the disk know. */

import type { FilesRoot } from '../../environments/files/session-files.ts';
import type { HistoryEntry } from '../../session/api.ts';
import { findWorkspace } from '../../session/data-folders.ts';
import type { Definition } from './definition.ts';
import { storageKeyOf } from './ids.ts';
import type { HostShare } from './share.ts';

type Place = Pick<HostShare, 'storage' | 'dataDir' | 'session'>;

/** Undefined where it has none yet. */
export async function workspaceAsleep(
  { storage, dataDir, session }: Place,
  { ownerId, agentKey, settings, folderIds }: Definition,
): Promise<FilesRoot | undefined> {
  const { cwd, executor, sandbox } = { ...session, ...settings };
  const key = storageKeyOf(ownerId, agentKey);
  return await findWorkspace(
    { agentKey: key, cwd, executor, sandbox, dataDir, folderLinks: 'refused', folderIds },
    storage.records,
  );
}

/** As the last process that had its kernel has left it. */
export async function historyAsleep(
  { storage }: Pick<Place, 'storage'>,
  { ownerId, agentKey }: Definition,
): Promise<HistoryEntry[]> {
  const record = await storage.records.get(storageKeyOf(ownerId, agentKey));
  return (record?.history ?? []).map(({ execution, code, status }) => ({ execution, code, status }));
}

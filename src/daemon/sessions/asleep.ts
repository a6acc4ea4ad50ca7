/** What can be told of a session whose kernel sleeps, without waking it: storage and the disk know. */

import type { HistoryEntry } from '../../session/api.ts';
import { findWorkspace } from '../../session/workspace.ts';
import type { Definition } from './definition.ts';
import { storageKeyOf } from './ids.ts';
import type { HostShare } from './share.ts';

type Place = Pick<HostShare, 'storage' | 'dataDir'>;

/** Undefined where it has none yet. */
export async function workspaceAsleep(
  { storage, dataDir }: Place,
  definition: Definition,
): Promise<string | undefined> {
  const { ownerId, agentKey, settings } = definition;
  return await findWorkspace(
    { agentKey: storageKeyOf(ownerId, agentKey), cwd: settings.cwd, dataDir, folderLinks: 'refused' },
    storage.records,
  );
}

/** As the last process that had its kernel has left it. */
export async function historyAsleep({ storage }: Place, { ownerId, agentKey }: Definition): Promise<HistoryEntry[]> {
  const record = await storage.records.get(storageKeyOf(ownerId, agentKey));
  return (record?.history ?? []).map(({ execution, code, status }) => ({ execution, code, status }));
}

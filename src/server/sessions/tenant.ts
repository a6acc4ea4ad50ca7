/** What an executor for the agent of a session is made from: the same options and folder as its kernels have. */

import type { SessionInfo } from '../../protocol/session-info.ts';
import type { Tenant } from '../runners/contract.ts';
import type { Definition } from './definition.ts';
import { storageKeyOf } from './ids.ts';
import type { HostShare } from './share.ts';

type Share = Pick<HostShare, 'storage' | 'dataDir' | 'session'>;

export async function tenantOf(
  { storage, dataDir, session }: Share,
  { ownerId, agentKey, settings, folderIds }: Definition,
  info: SessionInfo,
): Promise<Omit<Tenant, 'tellDenied'>> {
  const key = storageKeyOf(ownerId, agentKey);
  const workspaceOf = (await storage.records.get(key))?.workspaceOf;
  const options = { ...session, ...settings, ...(folderIds ? { folderIds } : {}), agentKey: key, dataDir };
  return { info, options, ...(workspaceOf === undefined ? {} : { workspaceOf }) };
}

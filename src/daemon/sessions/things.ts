/** Tools, skills, artifacts and packages of a user as they lie in storage: to look at them takes no kernel. */

import { type OpenedNamespaces, openNamespaces } from '../../session/open-namespaces.ts';
import type { HostShare } from './share.ts';
import { storageOf } from './user-storage.ts';

type Place = Pick<HostShare, 'storage' | 'dataDir' | 'session'>;

export async function thingsOf({ storage, dataDir, session }: Place, ownerId: string): Promise<OpenedNamespaces> {
  const { python, packages, toolFolders, credentials } = session;
  return await openNamespaces({
    dataDir,
    storage: storageOf(storage, ownerId),
    python,
    packages,
    toolFolders,
    credentials,
  });
}

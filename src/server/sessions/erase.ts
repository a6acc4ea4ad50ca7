/** Deletes all that a session has left: after its kernel has ended, or after the server that held it has. */

import { join } from 'node:path';
import { discardFolder } from '../../environments/files/remove-tree.ts';
import { folderName } from '../../storage/folder-name.ts';
import { PermissionRecords } from '../permissions/records.ts';
import { Rules } from '../permissions/rules.ts';
import { TurnRecords } from '../turns/records.ts';
import type { Definition } from './definition.ts';
import { storageKeyOf } from './ids.ts';
import { Outputs } from './outputs.ts';
import { takeSession } from './ownership.ts';
import { removeMark } from './recovery.ts';
import { Requests } from './requests.ts';
import type { HostShare } from './share.ts';

/** How long another process may take to let go of the session. */
const WAIT_MS = 5000;

/** May be called again where it did not come to its end. */
export async function eraseSession(share: HostShare, { id, ownerId, agentKey }: Definition): Promise<void> {
  const { storage, dataDir, leftovers } = share;
  const key = storageKeyOf(ownerId, agentKey);
  await using lock = await takeSession(storage, key, WAIT_MS);
  const { documents, ...own } = storage.fenced(lock);
  await own.deleteAgent(key);
  await discardFolder(join(dataDir, 'agents', folderName(key)), ownerId, share.onLeftover);
  await leftovers?.forget(key);
  const outputs = new Outputs(dataDir, id);
  await new Requests(documents, outputs, id, share.requests).remove();
  await new TurnRecords(documents, id).remove();
  await outputs.remove();
  await new PermissionRecords(documents, id).deleteAll();
  await new Rules(documents, { session: id }).deleteAll();
  await removeMark({ documents }, id);
}

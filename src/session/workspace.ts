/** Where the code of an agent works, for whoever looks at its files while no kernel runs. */

import { join, resolve } from 'node:path';
import type { FilesRoot } from '../environments/files/session-files.ts';
import { fileRights } from '../sandbox/sandbox-user.ts';
import { checkFolderId, resolveFolder } from '../sandbox/spec.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import { exists, INSIDE } from './homes.ts';
import type { SessionOptions } from './options.ts';

type Asked = 'cwd' | 'executor' | 'sandbox' | 'folderLinks' | 'folderIds';

export interface WhoseWorkspace extends Pick<SessionOptions, Asked> {
  readonly agentKey: string;
  /** Freed of symbolic links. */
  readonly dataDir: string;
}

/** Undefined where no kernel has ever been there, so that it is still to be made. */
export async function findWorkspace(whose: WhoseWorkspace, records: RecordStore): Promise<FilesRoot | undefined> {
  const { agentKey, cwd, dataDir, folderLinks, folderIds, executor = 'subprocess', sandbox } = whose;
  // A fork works in the folder of the agent that it was forked from.
  const owner = (await records.get(agentKey))?.workspaceOf ?? agentKey;
  const own = join(dataDir, 'agents', folderName(owner));
  const isolated = executor === 'container' || (executor === 'subprocess' && sandbox !== 'off');
  const elsewhere = cwd === undefined ? undefined : resolveFolder(resolve(cwd), 'cwd', dataDir, folderLinks);
  const path = elsewhere ?? join(own, 'workspace');
  if (elsewhere === undefined && !exists(path)) return undefined;
  const id = elsewhere === undefined ? undefined : checkFolderId(elsewhere, folderIds?.[elsewhere]);
  const inside = elsewhere ?? join(executor === 'in-process' || isolated ? INSIDE : own, 'workspace');
  if (!isolated || process.getuid?.() !== 0) return { path, inside, id };
  const rights = fileRights(path, join(own, 'home'), executor === 'container');
  return rights && { path, inside, id, rights };
}

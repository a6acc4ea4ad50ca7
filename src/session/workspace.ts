/** Where the code of an agent works, for whoever looks at its files while no kernel runs. */

import { join, resolve } from 'node:path';
import { type FolderLinks, resolveFolder } from '../sandbox/spec.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import { exists } from './homes.ts';

export interface WhoseWorkspace {
  readonly agentKey: string;
  /** The folder that its options name, if any. */
  readonly cwd?: string | undefined;
  readonly folderLinks?: FolderLinks;
  /** Freed of symbolic links. */
  readonly dataDir: string;
}

/** The folder on the host; undefined where no kernel has ever been there, so that it is still to be made. */
export async function findWorkspace(whose: WhoseWorkspace, records: RecordStore): Promise<string | undefined> {
  const { agentKey, cwd, dataDir, folderLinks } = whose;
  if (cwd !== undefined) return resolveFolder(resolve(cwd), 'cwd', dataDir, folderLinks);
  // A fork works in the folder of the agent that it was forked from.
  const owner = (await records.get(agentKey))?.workspaceOf ?? agentKey;
  const workspace = join(dataDir, 'agents', folderName(owner), 'workspace');
  return exists(workspace) ? workspace : undefined;
}

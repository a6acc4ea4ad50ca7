/** Who has a data folder as its server, for commands that ask. Heavy parts load when used. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { FolderWatch } from './cli/context.ts';

/** Makes nothing where there is nothing. What the server tells of itself comes first: its database may be harmed. */
export async function watchFolder(dataDir: string): Promise<FolderWatch> {
  const [{ FileStorage }, { Lifelines }, { folderHolder, toldHolder }] = await Promise.all([
    import('./storage/file/storage.ts'),
    import('./storage/file/process-liveness.ts'),
    import('./server/folder.ts'),
  ]);
  const lifelines = new Lifelines(join(dataDir, 'processes'));
  const byLock = async () => {
    if (!existsSync(join(dataDir, 'cella.db'))) return undefined;
    await using files = await FileStorage.open(dataDir);
    return await folderHolder(files.locks);
  };
  return {
    holder: async () => {
      const told = toldHolder(dataDir);
      if (told && lifelines.isAlive(told.id)) return told;
      return lifelines.inUse ? await byLock() : undefined;
    },
    look: ({ id }) => lifelines.statusOf(id),
    [Symbol.asyncDispose]: async () => lifelines.close(),
  };
}

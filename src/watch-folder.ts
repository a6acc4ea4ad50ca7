/** Who has a data folder as its server, for commands that ask. Heavy parts load when used. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { FolderWatch } from './cli/context.ts';

/** Makes nothing where there is nothing. */
export async function watchFolder(dataDir: string): Promise<FolderWatch> {
  if (!existsSync(join(dataDir, 'cella.db')))
    return { holder: async () => undefined, [Symbol.asyncDispose]: async () => {} };
  const [{ FileStorage }, { folderHolder }] = await Promise.all([
    import('./storage/file/storage.ts'),
    import('./daemon/folder.ts'),
  ]);
  const files = await FileStorage.open(dataDir);
  return { holder: () => folderHolder(files.locks), [Symbol.asyncDispose]: () => files.close() };
}

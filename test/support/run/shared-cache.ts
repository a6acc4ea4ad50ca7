/** Data folders whose cache is the one that all files of a run share; cache-setup.ts makes it. */

import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { inject } from 'vitest';

/** For tests that are not about the cache itself. */
export function shareCache(dataDir: string): string {
  if (!existsSync(join(dataDir, 'cache'))) symlinkSync(inject('sharedCache'), join(dataDir, 'cache'));
  return dataDir;
}

declare module 'vitest' {
  interface ProvidedContext {
    sharedCache: string;
  }
}

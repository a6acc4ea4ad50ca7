/** Sessions in containers for tests, on the engine that the files of a run share. */

import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type Open, openSession, scratchFolder } from './session.ts';
import { sharedEngineWithImage } from './shared-docker.ts';

let cache: Promise<string> | undefined;

export const openContainer: Open = async ({ dataDir, ...options } = {}) => {
  const engine = await sharedEngineWithImage();
  const folder = dataDir ?? (await scratchFolder());
  // The image is asked once for all of them, not once for each data folder.
  cache ??= scratchFolder();
  if (!existsSync(join(folder, 'cache'))) symlinkSync(await cache, join(folder, 'cache'));
  return await openSession({ executor: 'container', engine, dataDir: folder, ...options });
};

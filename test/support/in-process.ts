/** Sessions whose kernels run in this process. The snapshot that they start from is made once for all files of a run. */

import { beforeAll } from 'vitest';
import { type Open, openSession, scratchFolder } from './session.ts';
import { shareCache } from './shared-cache.ts';

/** On a busy machine the first start takes this long. */
const FIRST_START_MS = 240_000;

export const openInProcess: Open = async ({ dataDir, ...options } = {}) => {
  const folder = shareCache(dataDir ?? (await scratchFolder()));
  return await openSession({ executor: 'in-process', startTimeoutMs: FIRST_START_MS, dataDir: folder, ...options });
};

beforeAll(async () => {
  await (await openInProcess()).close();
}, FIRST_START_MS);

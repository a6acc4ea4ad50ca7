/** Sessions whose kernels run in this process. The snapshot that they start from is made once for all files of a run. */

import { beforeAll } from 'vitest';
import type { SessionOptions } from '../../../src/index.ts';
import { shareCache } from '../run/shared-cache.ts';
import { type Open, openLasting, openSession, scratchFolder } from './session.ts';
import { lending } from './shared-kernel.ts';

/** On a busy machine the first start takes this long. */
const FIRST_START_MS = 240_000;

const settings = async ({ dataDir, ...options }: SessionOptions = {}): Promise<SessionOptions> => {
  const own = dataDir ?? (await scratchFolder());
  // Snapshots with other modules in them would push out the one that the others start from.
  const folder = options.preload === undefined ? shareCache(own) : own;
  return { executor: 'in-process', startTimeoutMs: FIRST_START_MS, dataDir: folder, ...options };
};

export const openInProcess: Open = async (options) => await openSession(await settings(options));

export const lendInProcess: Open = lending(async (options) => await openLasting(await settings(options)));

beforeAll(async () => {
  await (await openInProcess()).close();
}, FIRST_START_MS);

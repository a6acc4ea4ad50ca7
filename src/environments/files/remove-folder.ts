/**
 * Removes a folder that code has filled, whatever that has put into it: paths in it may be longer than the system takes,
 * and entries so many that removing them at once would hold up everybody else's files.
 */

import { realpath, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { HeldFolder } from './held-folder.ts';
import { isGone, removeTree } from './remove-tree.ts';

/** Nothing there is well. */
export async function removeFolder(path: string): Promise<void> {
  // Elsewhere folders cannot be held, and code runs in containers alone.
  if (process.platform !== 'linux') return await rm(path, { recursive: true, force: true });
  try {
    await using parent = await HeldFolder.root({ path: await realpath(dirname(path)) });
    await removeTree(parent, Buffer.from(basename(path)));
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

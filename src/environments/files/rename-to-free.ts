/**
 * Renames without replacing, whatever code does meanwhile: fails with EEXIST if the name is taken. Node cannot ask for
 * that in one step.
 */

import { link, lstat, mkdir, rename, rmdir, unlink } from 'node:fs/promises';

export async function renameToFree(from: string, to: string): Promise<void> {
  if ((await lstat(from)).isDirectory()) return await renameFolder(from, to);
  await link(from, to);
  try {
    await unlink(from);
  } catch (error) {
    await unlink(to).catch(() => {}); // the first failure is the one to tell
    throw error;
  }
}

/** An empty folder takes the name, and only an empty folder can be replaced by another: that is all that can be lost. */
async function renameFolder(from: string, to: string): Promise<void> {
  await mkdir(to);
  try {
    await rename(from, to);
  } catch (error) {
    await rmdir(to).catch(() => {}); // something else has the name by now
    throw error;
  }
}

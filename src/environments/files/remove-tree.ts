/**
 * Removes a folder with all that is in it, one after the other. What lies deeper is brought up into it, level by level:
 * few folders are held open at a time, however deep they lie.
 */

import { randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { opendir, rename, rmdir, unlink } from 'node:fs/promises';
import type { HeldFolder } from './held-folder.ts';
import { refused } from './path.ts';

/** More than anybody makes who does not mean harm. */
const MOST_LEVELS = 4096;
/** Of folders that cannot be brought up, each of which is held open with those above it. */
const MOST_HELD = 64;
const AT_ONCE = 256;

export async function removeTree(parent: HeldFolder, name: string, held = 0): Promise<void> {
  if (held > MOST_HELD) throw refused(name, 'folders in it are too deep');
  {
    await using top = await parent.folder(name);
    for (let level = 0; (await removeLevel(top, held)) > 0; level++) {
      if (level > MOST_LEVELS) throw refused(name, 'folders in it are too deep');
    }
  }
  await rmdir(parent.path(name));
}

/** Whether it says that something is not there. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Gives how many folders have come into `top` in place of what was in it. */
async function removeLevel(top: HeldFolder, held: number): Promise<number> {
  let raised = 0;
  for await (const entry of await opendir(top.path(), { bufferSize: AT_ONCE })) {
    if (!(await isRemoved(top, entry))) raised += await removeFolder(top, entry.name, held);
  }
  return raised;
}

async function removeFolder(top: HeldFolder, name: string, held: number): Promise<number> {
  let raised = 0;
  {
    await using folder = await top.folder(name);
    for await (const entry of await opendir(folder.path(), { bufferSize: AT_ONCE })) {
      if (await isRemoved(folder, entry)) continue;
      if (await succeeds(rename(folder.path(entry.name), top.path(`.removed-${randomUUID()}`)))) raised++;
      // Some file systems cannot do that with what came with an image.
      else await removeTree(folder, entry.name, held + 1);
    }
  }
  await rmdir(top.path(name));
  return raised;
}

/** False where it is a folder with something in it. */
async function isRemoved(folder: HeldFolder, entry: Dirent): Promise<boolean> {
  const path = folder.path(entry.name);
  if (entry.isDirectory()) return await succeeds(rmdir(path));
  await unlink(path).catch((error) => {
    if (!isGone(error)) throw error; // somebody else was faster
  });
  return true;
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

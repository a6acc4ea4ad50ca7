/**
 * Removes a folder with all that is in it. What lies deeper is brought up into it, level by level: few folders are held
 * open at a time, however deep they lie.
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

/** Gives how many folders have come into `top` in place of what was in it. */
async function removeLevel(top: HeldFolder, held: number): Promise<number> {
  let raised = 0;
  for await (const entry of await opendir(top.path())) {
    if (entry.isDirectory()) raised += await removeFolder(top, entry.name, held);
    else await unlink(top.path(entry.name));
  }
  return raised;
}

async function removeFolder(top: HeldFolder, name: string, held: number): Promise<number> {
  let raised = 0;
  {
    await using folder = await top.folder(name);
    for await (const entry of await opendir(folder.path())) {
      if (await isRemoved(folder, entry)) continue;
      const isRaised = await rename(folder.path(entry.name), top.path(`.removed-${randomUUID()}`)).then(
        () => true,
        () => false,
      );
      if (isRaised) raised++;
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
  if (!entry.isDirectory()) return await unlink(path).then(() => true);
  return await rmdir(path).then(
    () => true,
    () => false,
  );
}

/**
 * Removes a folder with all that is in it, one after the other. What lies deeper is brought up into it, level by level:
 * few folders are held open at a time, however deep they lie.
 */

import { randomUUID } from 'node:crypto';
import { opendir, rename, rmdir, unlink } from 'node:fs/promises';
import type { HeldFolder } from './held-folder.ts';
import { refused } from './path.ts';

/** Of folders that cannot be brought up, each of which is held open with those above it. */
const MOST_HELD = 64;
const AT_ONCE = 256;

/** `name` is bytes: code may have given names that are no text. */
export async function removeTree(parent: HeldFolder, name: Buffer, held = 0): Promise<void> {
  if (held > MOST_HELD) throw refused(name.toString(), 'folders in it are too deep');
  {
    if (await isRemoved(parent, name, true)) return;
    await using top = await parent.unlocked(name);
    while ((await removeLevel(top, held)) > 0);
  }
  await rmdir(parent.bytes(name));
}

/** Whether it says that something is not there. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** Gives how many folders have come into `top` in place of what was in it. */
async function removeLevel(top: HeldFolder, held: number): Promise<number> {
  let raised = 0;
  for await (const { name, isFolder } of entriesOf(top)) {
    if (!(await isRemoved(top, name, isFolder))) raised += await removeFolder(top, name, held);
  }
  return raised;
}

async function removeFolder(top: HeldFolder, name: Buffer, held: number): Promise<number> {
  let raised = 0;
  {
    await using folder = await top.unlocked(name);
    for await (const { name: inner, isFolder } of entriesOf(folder)) {
      if (await isRemoved(folder, inner, isFolder)) continue;
      if (await isRaised(folder, inner, top)) raised++;
      // Some file systems cannot do that with what came with an image.
      else await removeTree(folder, inner, held + 1);
    }
  }
  await rmdir(top.bytes(name));
  return raised;
}

/** A folder that its owner may not write to is not moved either. */
async function isRaised(folder: HeldFolder, name: Buffer, top: HeldFolder): Promise<boolean> {
  const raise = () => succeeds(rename(folder.bytes(name), top.path(`.removed-${randomUUID()}`)));
  if (await raise()) return true;
  await using _unlocked = await folder.unlocked(name);
  return await raise();
}

/** Every byte of a name is a letter of Latin-1. */
async function* entriesOf(folder: HeldFolder): AsyncIterable<{ readonly name: Buffer; readonly isFolder: boolean }> {
  for await (const entry of await opendir(folder.path(), { bufferSize: AT_ONCE, encoding: 'latin1' })) {
    yield { name: Buffer.from(entry.name, 'latin1'), isFolder: entry.isDirectory() };
  }
}

/** False where it is a folder with something in it. */
async function isRemoved(folder: HeldFolder, name: Buffer, isFolder: boolean): Promise<boolean> {
  const path = folder.bytes(name);
  if (isFolder) {
    return await rmdir(path).then(
      () => true,
      (error) => {
        // A mount is busy: it is not entered.
        if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(error.code)) throw error;
        return error.code === 'ENOENT';
      },
    );
  }
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

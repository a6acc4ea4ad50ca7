/**
 * Lists and removes folders of any size. Node's `readdir` handles all entries in one turn of the event loop, and its recursive
 * `rm` starts to remove all of them in one turn.
 */

import type { Dirent } from 'node:fs';
import { chmod, lstat, opendir, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { systemCode } from './values.ts';

const ENTRIES_AT_ONCE = 256;
/** As many as Node has threads for files, so that other work with files waits for a few of them only. */
const REMOVALS_AT_ONCE = 4;
const OWNER_BITS = 0o700;

export async function* entriesOf(folder: string): AsyncGenerator<Dirent, void, undefined> {
  yield* await opendir(folder, { bufferSize: ENTRIES_AT_ONCE });
}

/** What is in a folder and in the folders below it, except the folders themselves. */
export async function* filesBelow(folder: string): AsyncGenerator<Dirent, void, undefined> {
  // A list, not recursion: only one folder is open at a time.
  const folders = [folder];
  for (let path = folders.pop(); path !== undefined; path = folders.pop()) {
    for await (const entry of entriesOf(path)) {
      if (entry.isDirectory()) folders.push(join(path, entry.name));
      else yield entry;
    }
  }
}

/**
 * Removes a file, or a folder with all that is in it, even if it is read-only. Does nothing if it is gone. If untrusted code may
 * change the folder meanwhile, use `removeFolder`.
 */
export async function removeOwnTree(path: string): Promise<void> {
  await lstat(path)
    .then((facts) => (facts.isDirectory() ? removeOwnFolder(path, facts.mode) : unlink(path)))
    .catch(ignoreGone);
}

async function removeOwnFolder(path: string, mode: number): Promise<void> {
  if ((mode & OWNER_BITS) !== OWNER_BITS) await chmod(path, OWNER_BITS);
  const [files, folders]: [string[], string[]] = [[], []];
  // Listed first: some systems skip entries of a folder that changes while it is read.
  for await (const entry of entriesOf(path)) (entry.isDirectory() ? folders : files).push(join(path, entry.name));
  for (let first = 0; first < files.length; first += REMOVALS_AT_ONCE) {
    await Promise.all(files.slice(first, first + REMOVALS_AT_ONCE).map((file) => unlink(file).catch(ignoreGone)));
  }
  for (const folder of folders) await removeOwnTree(folder);
  await rmdir(path);
}

/** Another process may remove the same folder. */
function ignoreGone(error: unknown): void {
  if (systemCode(error) !== 'ENOENT') throw error;
}

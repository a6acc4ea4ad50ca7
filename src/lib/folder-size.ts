/** How much disk space the files in a folder take. Untrusted code writes to the folder while it is measured. */

import { constants } from 'node:fs';
import { type FileHandle, lstat, open, opendir, readlink, realpath } from 'node:fs/promises';
import { systemCode } from './errno.ts';

/** What a file system takes for an entry without any data. */
const ENTRY_BYTES = 512;
const BLOCK_BYTES = 512;
const MOST_ENTRIES = 1_000_000;
/** Of the paths of folders that are still to be looked at: each may be as long as the system takes. */
const MOST_WAITING_BYTES = 64 * 1024 * 1024;
/** Leads to a folder, also to one that may not be read. Node has no name for O_PATH. */
const OPEN_FOLDER = (process.platform === 'linux' ? 0o10000000 : 0) | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Links are not followed, holes are not counted, and what goes away meanwhile is nothing. What cannot be counted is
 * without an end: a folder that its code has closed, paths that are too long for the system, too many entries.
 */
export async function folderSize(
  path: string,
  { mostEntries = MOST_ENTRIES, mostWaitingBytes = MOST_WAITING_BYTES } = {},
): Promise<number> {
  let [bytes, entries, waitingBytes] = [0, 0, 0];
  // Not by recursion: folders may lie as deep in each other as the code likes.
  for (const folders = await realPaths(path); ; ) {
    const folder = folders.pop();
    if (folder === undefined) return bytes;
    waitingBytes -= folder.length;
    try {
      await using held = await open(folder, OPEN_FOLDER);
      const at = await heldPath(held, folder);
      if (!at) continue;
      // A name is bytes: one that is no text is there all the same, and every byte is a letter of Latin-1.
      for await (const entry of await opendir(Buffer.concat([at, DOT]), { bufferSize: 256, encoding: 'latin1' })) {
        const name = Buffer.from(`/${entry.name}`, 'latin1');
        if (entry.isDirectory()) {
          folders.push(Buffer.concat([folder, name]));
          waitingBytes += folder.length + name.length;
        }
        bytes += await bytesOf(Buffer.concat([at, name]), entry.isDirectory());
        entries += 1;
        if (entries > mostEntries || waitingBytes > mostWaitingBytes) return Infinity;
      }
    } catch (error) {
      bytes += bytesWithout(error);
    }
  }
}

const DOT = Buffer.from('/.');

async function realPaths(path: string): Promise<Buffer[]> {
  try {
    return [await realpath(path, { encoding: 'buffer' })];
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** A path to the open folder itself. None where code has put a link above it: what that leads to is not the user's. */
async function heldPath(held: FileHandle, folder: Buffer): Promise<Buffer | undefined> {
  // Elsewhere folders cannot be held, and code runs in containers alone.
  if (process.platform !== 'linux') return folder;
  const at = `/proc/self/fd/${held.fd}`;
  const real = await readlink(at, { encoding: 'latin1' });
  return real === folder.toString('latin1') ? Buffer.from(at) : undefined;
}

async function bytesOf(file: Buffer, isFolder: boolean): Promise<number> {
  try {
    const { blocks, nlink } = await lstat(file);
    // A file with several names lies there once.
    return ENTRY_BYTES + (blocks * BLOCK_BYTES) / (isFolder ? 1 : Math.max(1, nlink));
  } catch (error) {
    return bytesWithout(error);
  }
}

function bytesWithout(error: unknown): number {
  const code = systemCode(error) ?? '';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 0;
  if (code === 'EACCES' || code === 'ENAMETOOLONG' || code === 'ELOOP') return Infinity;
  throw error;
}

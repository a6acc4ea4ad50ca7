/** Measures the disk space of the files in a folder. Untrusted code may write to the folder meanwhile. */

import { constants } from 'node:fs';
import { type FileHandle, lstat, open, opendir, readlink, realpath } from 'node:fs/promises';
import { systemCode } from './values.ts';

/** What an entry without data takes on disk. */
const ENTRY_BYTES = 512;
const BLOCK_BYTES = 512;
const MOST_ENTRIES = 1_000_000;
/** Limit on the queued folder paths: each may be as long as the system allows. */
const MOST_WAITING_BYTES = 64 * 1024 * 1024;
/** Opens a folder even if it is not readable. Node has no name for O_PATH. */
const OPEN_FOLDER = (process.platform === 'linux' ? 0o10000000 : 0) | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * Follows no links, and does not count holes or entries that disappear meanwhile. Returns Infinity if it cannot count
 * everything: an unreadable folder, paths that are too long for the system, too many entries.
 */
export async function folderSize(
  path: string,
  { mostEntries = MOST_ENTRIES, mostWaitingBytes = MOST_WAITING_BYTES } = {},
): Promise<number> {
  let [bytes, entries, waitingBytes] = [0, 0, 0];
  // A stack, not recursion: code can nest folders as deep as it likes.
  for (const folders = await realPaths(path); ; ) {
    const folder = folders.pop();
    if (folder === undefined) return bytes;
    waitingBytes -= folder.length;
    try {
      await using held = await open(folder, OPEN_FOLDER);
      const at = await heldPath(held, folder);
      if (!at) continue;
      // Names are bytes and need not be valid text. Latin-1 maps every byte to a character.
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

/** A path to the open folder itself. Undefined if code replaced a parent with a link: its target may not be the user's. */
async function heldPath(held: FileHandle, folder: Buffer): Promise<Buffer | undefined> {
  // Other systems cannot address a folder by its descriptor, and run code only in containers.
  if (process.platform !== 'linux') return folder;
  const at = `/proc/self/fd/${held.fd}`;
  const real = await readlink(at, { encoding: 'latin1' });
  return real === folder.toString('latin1') ? Buffer.from(at) : undefined;
}

async function bytesOf(file: Buffer, isFolder: boolean): Promise<number> {
  try {
    const { blocks, nlink } = await lstat(file);
    // The names of a hard-linked file share its blocks.
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

/** How much room the files in a folder take on the disk. The folder is written by code that nobody trusts. */

import { lstat, opendir } from 'node:fs/promises';
import { systemCode } from '../../storage/file/failure.ts';

/** What a file system takes for an entry without any data. */
const ENTRY_BYTES = 512;
const BLOCK_BYTES = 512;
const MOST_ENTRIES = 1_000_000;

/**
 * Links are not followed, holes are not counted, and what goes away meanwhile is nothing. What cannot be counted is
 * without an end: a folder that its code has closed, paths that are too long for the system, too many entries.
 */
export async function folderBytes(path: string, { mostEntries = MOST_ENTRIES } = {}): Promise<number> {
  let [bytes, entries] = [0, 0];
  // Not by recursion: folders may lie as deep in each other as the code likes.
  for (const folders = [Buffer.from(path)]; ; ) {
    const folder = folders.pop();
    if (folder === undefined) return bytes;
    try {
      // A name is bytes: one that is no text is there all the same, and every byte is a letter of Latin-1.
      for await (const entry of await opendir(folder, { bufferSize: 256, encoding: 'latin1' })) {
        const file = Buffer.concat([folder, Buffer.from(`/${entry.name}`, 'latin1')]);
        if (entry.isDirectory()) folders.push(file);
        bytes += await bytesOf(file, entry.isDirectory());
        entries += 1;
        if (entries > mostEntries) return Infinity;
      }
    } catch (error) {
      bytes += bytesWithout(error);
    }
  }
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

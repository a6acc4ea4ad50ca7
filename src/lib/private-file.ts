/** Files and folders for this user only. Reads check them; writes are on disk when their call resolves. */

import { constants, type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemCode } from './values.ts';

export type OwnFile =
  | { readonly kind: 'missing' }
  | { readonly kind: 'unusable'; readonly reason: string }
  | { readonly kind: 'read'; readonly text: string; readonly mode: number };

interface ReadOwnFile {
  readonly maxBytes: number;
  readonly followLinks?: boolean;
  readonly mayBeRoots?: boolean;
}

/** Reads a regular file that belongs to this user. The caller checks whether others may read or write it. */
export async function readOwnFile(path: string, options: ReadOwnFile): Promise<OwnFile> {
  const { maxBytes, followLinks = false, mayBeRoots = false } = options;
  const file = await openWithoutWaiting(path, followLinks);
  if (!('stat' in file)) return file;
  // Check and read use the same open file, so it cannot be replaced in between.
  await using held = file;
  const stats = await held.stat();
  const { uid, size, mode } = stats;
  if (!stats.isFile()) return unusable('it is not a file');
  const own = process.geteuid?.() ?? uid;
  if (uid !== own && !(mayBeRoots && uid === 0)) return unusable(`it belongs to another user (${uid})`);
  if (size > maxBytes) return unusable('it is too large');
  return { kind: 'read', text: await held.readFile('utf8'), mode };
}

/** Does not block on a pipe without a writer. */
async function openWithoutWaiting(path: string, followLinks: boolean): Promise<FileHandle | OwnFile> {
  try {
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | (followLinks ? 0 : constants.O_NOFOLLOW);
    return await open(path, flags);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return { kind: 'missing' };
    if (code === 'ELOOP') return unusable('it is a link');
    if (code === 'ENXIO') return unusable('it is not a file');
    throw error;
  }
}

const unusable = (reason: string): OwnFile => ({ kind: 'unusable', reason });

/** Replaces the file atomically. `temporary` is in the same folder, and is overwritten if it exists. */
export async function replacePrivateFile(path: string, text: string, temporary: string): Promise<void> {
  try {
    await rm(temporary, { force: true });
    await writePrivateFile(temporary, text);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Fails if the file exists. */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  await file.writeFile(text);
  await file.sync();
}

/** Also creates missing parents. Node's recursive mkdir hides the reason of a failure. */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await makeOne(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makePrivateFolder(dirname(path));
    await makeOne(path);
  }
}

async function makeOne(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) === 'EEXIST' && (await stat(path)).isDirectory()) return;
    throw error;
  }
  await syncFolder(dirname(path));
}

/** Syncs the folder's entries: creating, renaming or removing a file changes the folder, not the file. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await folder.sync();
}

/** The coarsest file system clock in use ticks every two seconds. Two changes within a tick look like one. */
const TICK_MS = 2000;

/** Whether the last change is so old that any further change will alter the file's time or size. */
export function isStable({ ctimeMs }: { readonly ctimeMs: bigint | number }): boolean {
  return Math.abs(Date.now() - Number(ctimeMs)) > TICK_MS;
}

/** Files and folders for this user alone: checked when they are read, and on the disk when a call that writes resolves. */

import { constants, type FileHandle, mkdir, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemCode } from './errno.ts';

export type OwnFile =
  | { readonly kind: 'missing' }
  | { readonly kind: 'unusable'; readonly reason: string }
  | { readonly kind: 'read'; readonly text: string; readonly mode: number };

interface ReadOwnFile {
  readonly maxBytes: number;
  readonly followLinks?: boolean;
  readonly mayBeRoots?: boolean;
}

/** Reads a regular file that belongs to this user. Whether others may read or write it is for the caller to check. */
export async function readOwnFile(path: string, options: ReadOwnFile): Promise<OwnFile> {
  const { maxBytes, followLinks = false, mayBeRoots = false } = options;
  const file = await openWithoutWaiting(path, followLinks);
  if (!('stat' in file)) return file;
  // What is read is what was checked: both go by the open file.
  await using held = file;
  const stats = await held.stat();
  const { uid, size, mode } = stats;
  if (!stats.isFile()) return unusable('it is not a file');
  const own = process.geteuid?.() ?? uid;
  if (uid !== own && !(mayBeRoots && uid === 0)) return unusable(`it belongs to another user (${uid})`);
  if (size > maxBytes) return unusable('it is too large');
  return { kind: 'read', text: await held.readFile('utf8'), mode };
}

/** A pipe that nobody writes to does not block. */
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

/** Replaces the file in one step. `temporary` lies in the same folder, and is replaced if it exists. */
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

/** Makes missing parents, too. Node's recursive mkdir hides the reason if it fails. */
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

/** Names in a folder (made, renamed, removed) are the folder's own data. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, 'r');
  await folder.sync();
}

/** The coarsest clock of a file system in use ticks every two seconds; a change within a tick does not show. */
const TICK_MS = 2000;

/** Whether a file has not changed for so long that its time and size tell its next change. */
export function isStable({ ctimeMs }: { readonly ctimeMs: bigint | number }): boolean {
  return Math.abs(Date.now() - Number(ctimeMs)) > TICK_MS;
}

/** Writes files and folders that are on the disk when the call resolves. */

import { mkdir, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { systemCode } from '../../lib/errno.ts';

/** Makes missing parents, too. Node's recursive mkdir hides the reason if it fails. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await makeInPlace(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeFolder(dirname(path));
    await makeInPlace(path);
  }
}

async function makeInPlace(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) === 'EEXIST' && (await stat(path)).isDirectory()) return;
    throw error;
  }
  await syncFolder(dirname(path));
}

export async function writeFileDurably(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Names in a folder (made, renamed, removed) are the folder's own data. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The coarsest clock of a file system in use ticks every two seconds; a change within a tick does not show. */
const TICK_MS = 2000;

export function isStable({ ctimeMs }: { readonly ctimeMs: bigint | number }): boolean {
  return Math.abs(Date.now() - Number(ctimeMs)) > TICK_MS;
}

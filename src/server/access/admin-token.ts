/** The file with the admin's token: for its user alone, whole or not there, and never reached through a link. */

import { constants, type FileHandle, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFolder } from '../../storage/file/durable-files.ts';
import { guarded, systemCode } from '../../storage/file/file-errors.ts';

const MOST_BYTES = 200;

/** `exposed`: others could have read it, so its token must not be used any more. */
export type AdminTokenFile =
  | { readonly kind: 'missing' }
  | { readonly kind: 'private'; readonly token: string }
  | { readonly kind: 'exposed'; readonly token: string };

export const adminTokenPath = (dataDir: string): string => join(dataDir, 'admin-token');

export async function readAdminToken(path: string): Promise<AdminTokenFile> {
  const file = await openFile(path);
  if (!file) return { kind: 'missing' };
  try {
    const { size, mode, uid } = await file.stat();
    // Somebody else's file, a folder or a pipe is none; what is written takes its place, or says why it cannot.
    const isOurs = (mode & constants.S_IFMT) === constants.S_IFREG && uid === process.geteuid?.();
    if (!isOurs || size > MOST_BYTES) return { kind: 'missing' };
    const token = (await file.readFile('utf8')).trim();
    return { kind: (mode & 0o077) === 0 ? 'private' : 'exposed', token };
  } finally {
    await file.close();
  }
}

export async function writeAdminToken(path: string, token: string): Promise<void> {
  const fresh = join(dirname(path), '.admin-token.new');
  await guarded('write', path, async () => {
    await rm(fresh, { force: true });
    const file = await open(fresh, 'wx', 0o600);
    try {
      await file.chmod(0o600);
      await file.writeFile(`${token}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(fresh, path);
    await syncFolder(dirname(path));
  });
}

async function openFile(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT' || code === 'ELOOP' || code === 'ENXIO' || code === 'EACCES') return undefined;
    return guarded('read', path, () => Promise.reject(error));
  }
}

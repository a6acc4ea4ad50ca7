/** Copies a folder to a read-only one, and removes such folders. */

import { constants } from 'node:fs';
import { chmod, chown, copyFile, lstat, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

const AT_ONCE = 16;

/**
 * Files and folders become this process's own, readable for all and writable for none. A link or a device is refused:
 * no wheel needs one, and it could expose a file outside the set.
 */
export async function copyReadOnly(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  const entries = await readdir(from, { withFileTypes: true });
  for (const entry of entries.filter((one) => one.isDirectory())) {
    await copyReadOnly(join(from, entry.name), join(to, entry.name));
  }
  const files = entries.filter((one) => !one.isDirectory());
  for (let first = 0; first < files.length; first += AT_ONCE) {
    const some = files.slice(first, first + AT_ONCE);
    await Promise.all(some.map(({ name }) => copyFileReadOnly(join(from, name), join(to, name))));
  }
  await chmod(to, 0o555);
}

async function copyFileReadOnly(from: string, to: string): Promise<void> {
  const stats = await lstat(from);
  if (!stats.isFile()) throw new Error(`${from} is neither a file nor a folder`);
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  // A copy that root makes keeps its owner.
  if (process.getuid && process.getgid) await chown(to, process.getuid(), process.getgid());
  await chmod(to, (stats.mode & 0o111) === 0 ? 0o444 : 0o555);
}

/** Folders are made writable first, as an ordinary user cannot empty them otherwise. Does nothing if it is gone. */
export async function removeTree(path: string): Promise<void> {
  await makeWritable(path);
  await rm(path, { recursive: true, force: true });
}

async function makeWritable(path: string): Promise<void> {
  const stats = await lstat(path).catch(() => undefined);
  if (!stats?.isDirectory()) return;
  if ((stats.mode & 0o700) !== 0o700) await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeWritable(join(path, entry.name));
  }
}

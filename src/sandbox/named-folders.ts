/** Folders that a caller names for a sandbox: whether they are allowed, how to mount them, and how to recognise them later. */

import { accessSync, type BigIntStats, constants, readFileSync, realpathSync, statSync } from 'node:fs';
import { messageOf, systemCode } from '../lib/values.ts';
import type { FolderId, Mount } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';

/** Folders that a sandbox fills itself, or that would expose the host. */
const SYSTEM_FOLDERS = [
  '/',
  '/bin',
  '/boot',
  '/etc',
  '/lib',
  '/lib64',
  '/root',
  '/run',
  '/sbin',
  '/tmp',
  '/usr',
  '/var',
];
/** Refused with everything below them. */
const SYSTEM_TREES = ['/dev', '/proc', '/sys'];

// These calls take microseconds each on local files; the thread pool would cost more than they do.

/** `refused`: the path was resolved earlier, so a link in it is new. */
type FolderLinks = 'followed' | 'refused';

/** Resolves a folder that a caller names. It must exist, be a folder, and expose nothing forbidden. */
export function resolveFolder(path: string, option: string, dataDir: string, links: FolderLinks = 'followed'): string {
  let real: string;
  let isFolder: boolean;
  try {
    real = realpathSync.native(path);
    isFolder = statSync(real).isDirectory();
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${folderProblem(path, cause)}.`, { cause });
  }
  if (!isFolder) throw new CellaError('INVALID_OPTIONS', `${option}: ${path} is not a folder.`);
  if (links === 'refused' && real !== path) {
    throw new CellaError('FOLDER_REPLACED', `${option}: a link is in the path of ${path} now.`);
  }
  if (SYSTEM_FOLDERS.includes(real)) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name a folder inside it.`);
  }
  if (SYSTEM_TREES.some((tree) => `${real}/`.startsWith(`${tree}/`))) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name another folder.`);
  }
  if (`${dataDir}/`.startsWith(`${real}/`) || `${real}/`.startsWith(`${dataDir}/`)) {
    const why = 'it holds Cella’s data folder or lies in it, and with it the workspaces of other sessions';
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} cannot be shown to a sandbox: ${why}.`);
  }
  return real;
}

/** The folder's current identity. Throws `FOLDER_REPLACED` if it differs from the recorded one. */
export function checkFolderId(path: string, recorded: FolderId | undefined): FolderId {
  const id = folderId(path);
  if (!recorded || isSameFolder(id, recorded)) return id;
  throw new CellaError('FOLDER_REPLACED', `${path} is another folder than when the session was made.`);
}

/** Why a folder cannot be used, as text for an error. */
export function folderProblem(path: string, cause: unknown): string {
  const code = systemCode(cause);
  if (code === 'ENOENT' || code === 'ENOTDIR') return `there is no folder ${path}`;
  if (code === 'EEXIST') return `${path} is not a folder`;
  if (code === 'EACCES') return `this user may not open the folder ${path}`;
  return `${path} cannot be used: ${messageOf(cause)}`;
}

/** A folder that code may change. A root host mounts it under its owner; any other host needs write access itself. */
export function writableFolder(path: string, root: boolean): Mount {
  if (root) {
    const { uid, gid } = statSync(path);
    return { path, owner: [uid, gid] };
  }
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new CellaError('WORKSPACE_NOT_WRITABLE', `This user cannot write to ${path}.`, { cause });
  }
  return { path };
}

/** A folder that code may read. If others cannot read it, a root host mounts it under its owner. */
export function readableFolder(path: string, root: boolean): Mount {
  const { uid, gid, mode } = statSync(path);
  return root && (mode & 0o005) !== 0o005 ? { path, owner: [uid, gid] } : { path };
}

let knownBootId: string | undefined;

function bootId(): string {
  knownBootId ??= readBootId();
  return knownBootId;
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return ''; // not Linux, where folders are not held open either
  }
}

export function folderId(path: string): FolderId {
  return folderIdOfStats(statSync(path, { bigint: true }));
}

export function folderIdOfStats({ dev, ino }: Pick<BigIntStats, 'dev' | 'ino'>): FolderId {
  return { device: String(dev), inode: String(ino), boot: bootId() };
}

export function isSameFolder(one: FolderId, other: FolderId): boolean {
  return one.inode === other.inode && (one.device === other.device || one.boot !== other.boot);
}

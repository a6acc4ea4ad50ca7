/** Builds the spec of an environment: its limits, and the folders that a caller names, checked. */

import { accessSync, type BigIntStats, constants, readFileSync, realpathSync, statSync } from 'node:fs';
import { systemCode } from '../lib/errno.ts';
import type { EnvironmentSpec, FolderId, Mount } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Limits, SandboxPolicy } from '../protocol/sandbox-policy.ts';

const MB = 1024 * 1024;
/** Places that a sandbox fills itself, or that would open the host to it. */
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
/** The same, with everything in them. */
const SYSTEM_TREES = ['/dev', '/proc', '/sys'];

export function limitsToSpec(limits: Limits): EnvironmentSpec['limits'] {
  return {
    memoryBytes: limits.memoryMb * MB,
    processes: limits.processes,
    cpuSeconds: limits.cpuSeconds,
    cpus: limits.cpus,
    fileBytes: limits.fileSizeMb * MB,
    openFiles: limits.openFiles,
    scratchBytes: limits.scratchMb * MB,
  };
}

// Calls of a few microseconds each on local files: going through the thread pool would cost more than they do.

/** `refused`: the path was resolved before. A link in it was put there since. */
type FolderLinks = 'followed' | 'refused';

/** A folder that is named by a caller: it must exist, be a folder, and show nothing that it must not. */
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
    throw new CellaError('INVALID_OPTIONS', `${option}: a link stands in the way of ${path} by now.`, {
      advice: 'Look who may write to the folders above it, or make the session again.',
    });
  }
  if (SYSTEM_FOLDERS.includes(real)) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name a folder inside it.`);
  }
  if (SYSTEM_TREES.some((tree) => `${real}/`.startsWith(`${tree}/`))) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name another folder.`);
  }
  if (`${dataDir}/`.startsWith(`${real}/`) || `${real}/`.startsWith(`${dataDir}/`)) {
    const why = 'it holds Cella’s data folder or lies in it, and with it the workspaces of other agents';
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} cannot be shown to a sandbox: ${why}.`);
  }
  return real;
}

/** Which folder it is now; `FOLDER_REPLACED` where that is not the one that was recorded. */
export function checkFolderId(path: string, recorded: FolderId | undefined): FolderId {
  const id = folderId(path);
  if (!recorded || isSameFolder(id, recorded)) return id;
  throw new CellaError('FOLDER_REPLACED', `${path} is another folder than when the session was made.`);
}

/** Why a folder cannot be used, in words. */
export function folderProblem(path: string, cause: unknown): string {
  const code = systemCode(cause);
  if (code === 'ENOENT' || code === 'ENOTDIR') return `there is no folder ${path}`;
  if (code === 'EEXIST') return `${path} is not a folder`;
  if (code === 'EACCES') return `this user may not open the folder ${path}`;
  return `${path} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`;
}

/** A folder the code may change. A root host brings it in under its owner; any other must be able to write to it. */
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

/** A folder the code may read. Where its owner keeps it from others, a root host brings it in under that owner. */
export function readableFolder(path: string, root: boolean): Mount {
  const { uid, gid, mode } = statSync(path);
  return root && (mode & 0o005) !== 0o005 ? { path, owner: [uid, gid] } : { path };
}

export function policyOf(sandbox: 'on' | 'off' | SandboxPolicy): SandboxPolicy {
  return typeof sandbox === 'string' ? { readable: [], writable: [], network: 'none' } : sandbox;
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
    return ''; // no Linux: folders are not held there either
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

/** Builds the spec of an environment: its limits, its user, and the folders that a caller names, checked. */

import { accessSync, type BigIntStats, constants, lstatSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
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

/** The user that a sandbox runs as: on a root host a user of its own per agent, otherwise the host's user. */
export interface SandboxUser {
  /** Whether this process is root, and the sandbox another user. */
  readonly root: boolean;
  readonly uid: number;
  readonly gid: number;
}

/** Far from the ranges of people, system services and containers; the small one is for hosts inside a container. */
const RANGES = [
  { first: 1_900_000_000, count: 67_108_864 },
  { first: 20_000, count: 40_000 },
] as const;

/** The first of each range. */
export const firstUids: readonly number[] = RANGES.map(({ first }) => first);

/**
 * For a folder that has no user of its own yet. No two folders of a file system have the same number at a time; in the
 * small range two may still share a user, and are kept apart by their mounts and namespaces alone.
 */
export function sandboxUser(folder: string, isolated: boolean): SandboxUser {
  const uid = process.getuid?.() ?? 0;
  if (!isolated || uid !== 0 || process.platform !== 'linux') {
    return { root: false, uid, gid: process.getgid?.() ?? uid };
  }
  const mapped = largestMappedUid();
  const range = RANGES.find(({ first, count }) => first + count <= mapped) ?? RANGES[1];
  const own = range.first + Number(statSync(folder, { bigint: true }).ino % BigInt(range.count));
  return { root: true, uid: own, gid: own };
}

/** Whether `sandboxUser` could have chosen this uid. */
export function isSandboxUid(uid: number): boolean {
  return RANGES.some(({ first, count }) => uid >= first && uid < first + count);
}

/** The rights of a session's code over a folder of its own, on a host that runs as root. */
export interface FileRights {
  readonly uid: number;
  readonly gid: number;
  /** Whether the code sees the folder through an idmapped mount, where its owner on disk is this user. */
  readonly mapped: boolean;
}

/**
 * `home` lies beside the workspace that an agent has of its own, and belongs to the user of its code. Undefined where that
 * user is not known before the first kernel.
 */
export function fileRights(path: string, home: string, container: boolean): FileRights | undefined {
  const facts = lstatSync(home, { throwIfNoEntry: false });
  // Through a mapping the code is whoever owns the folder: any number does.
  if (!facts) return container ? undefined : { ...sandboxUser(dirname(path), true), mapped: true };
  const ours = isSandboxUid(facts.uid);
  const { uid, gid } = ours ? facts : sandboxUser(dirname(home), true);
  const own = dirname(path) === dirname(home);
  return { uid, gid, mapped: !container && !(own && ours) };
}

let mappedUids: number | undefined;

/** What this process's user namespace has room for; it never changes. */
function largestMappedUid(): number {
  mappedUids ??= readMappedUids();
  return mappedUids;
}

function readMappedUids(): number {
  const lines = readFileSync('/proc/self/uid_map', 'utf8').trim().split('\n');
  return Math.max(
    ...lines.map((line) => line.trim().split(/\s+/).map(Number)).map(([first = 0, , count = 0]) => first + count),
  );
}

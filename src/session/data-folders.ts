/** The folders in the data folder: one for each agent key (its workspace and home), and one for package sets. */

import {
  chmodSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { FilesRoot } from '../environments/files/session-files.ts';
import { isStable } from '../lib/private-file.ts';
import { isProcessAlive } from '../lib/process-identity.ts';
import { systemCode } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import { checkFolderId, checkFoldersAnswer, folderProblem, resolveFolder } from '../sandbox/named-folders.ts';
import { fileRights, isSandboxUid, type SandboxUser, sandboxUser } from '../sandbox/sandbox-user.ts';
import { readProcessConfig } from '../settings/process-config.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/validation.ts';
import type { SessionOptions } from './session-options.ts';

/** Its path inside a sandbox, for every key. */
export const KEY_FOLDER_INSIDE = '/agent';
const UNCLAIMED_PREFIX = '.new-';

export interface KeyFolder extends SandboxUser {
  /** Contains only `workspace` and `home`. */
  readonly path: string;
  /** Set if the files on disk belong to another user than the sandbox's. */
  readonly owner?: readonly [uid: number, gid: number];
}

let madeFolders = 0;

/** A folder that belongs to no key yet. */
export function makeUnclaimedFolder(keyFolders: string, isolated: boolean): KeyFolder {
  const own = join(keyFolders, `${UNCLAIMED_PREFIX}${process.pid}-${Date.now().toString(36)}-${madeFolders++}`);
  mkdirSync(keyFolders, { recursive: true, mode: 0o700 });
  mkdirSync(own);
  // World-readable, whatever the umask: only the host's user can reach its parent folder.
  chmodSync(own, 0o755);
  const identity = sandboxUser(own, isolated);
  makeSubfolders({ path: own, ...identity });
  return { path: own, ...identity };
}

/** The folder of a key, if it has one. */
function findKeyFolder(own: string, isolated: boolean): KeyFolder | undefined {
  const facts = lstatSync(own, { throwIfNoEntry: false });
  if (facts === undefined) return undefined;
  if (!facts.isDirectory()) throw new CellaError('INVALID_OPTIONS', `dataDir: ${own} is not a folder.`);
  if ((facts.mode & 0o777) !== 0o755) chmodSync(own, 0o755);
  const fresh = sandboxUser(own, isolated);
  const workspace = lstatSync(join(own, 'workspace'), { throwIfNoEntry: false });
  if (!fresh.root || workspace === undefined) {
    makeSubfolders({ path: own, ...fresh });
    return { path: own, ...fresh };
  }
  const { uid, gid } = workspace;
  // Copied from elsewhere, or created without a sandbox: the code sees the folder as its own, and its owner on disk stays the
  // same.
  const folder: KeyFolder = isSandboxUid(uid)
    ? { path: own, root: true, uid, gid }
    : { path: own, ...fresh, owner: [uid, gid] };
  makeSubfolders(folder);
  return folder;
}

export function folderExists(own: string): boolean {
  return lstatSync(own, { throwIfNoEntry: false }) !== undefined;
}

/** Gives an unclaimed folder to a key. False if the key has one by now. */
export function claimKeyFolder(unclaimed: string, own: string): boolean {
  try {
    renameSync(unclaimed, own);
    return true;
  } catch (cause) {
    const code = systemCode(cause);
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') return false;
    throw cause;
  }
}

/** The folder of a key; makes it if missing. */
export function ensureKeyFolder(own: string, isolated: boolean): KeyFolder {
  const found = findKeyFolder(own, isolated);
  if (found) return found;
  const fresh = makeUnclaimedFolder(dirname(own), isolated);
  if (claimKeyFolder(fresh.path, own)) return { ...fresh, path: own };
  discardUnclaimedFolder(fresh.path);
  const theirs = findKeyFolder(own, isolated);
  if (!theirs)
    throw new CellaError('STORAGE_FAILED', `${own} was made and removed by another process at the same time.`);
  return theirs;
}

/** Removes an unclaimed folder. */
export function discardUnclaimedFolder(own: string): void {
  if (basename(own).startsWith(UNCLAIMED_PREFIX)) rmSync(own, { recursive: true, force: true });
}

/** Folders of keys in use by this process: by how many sessions, and whether the key was destroyed. */
const foldersInUse = new Map<string, { sessions: number; orphaned: boolean }>();

/** Returns the function to call when the session ends. */
export function enterKeyFolder(own: string): () => void {
  const folder = foldersInUse.get(own) ?? { sessions: 0, orphaned: false };
  foldersInUse.set(own, folder);
  folder.sessions++;
  return () => {
    folder.sessions--;
    if (folder.sessions === 0 && !folder.orphaned) foldersInUse.delete(own);
  };
}

/**
 * Whether the folder of a destroyed key is no longer used: it stays until its last session is destroyed. `others`: whether
 * storage knows of another session; undefined if nothing is stored.
 */
export async function isKeyFolderUnused(
  own: string,
  mine: boolean,
  others: (() => Promise<boolean>) | undefined,
): Promise<boolean> {
  const folder = foldersInUse.get(own);
  if (mine && folder) folder.orphaned = true;
  if (folder && folder.sessions > 0) return false;
  // Without records, only the key that owns the folder can end it.
  const unused = others ? !(await others()) : mine || folder?.orphaned === true;
  if (unused) foldersInUse.delete(own);
  return unused;
}

const sweptFolders = new Set<string>();

/** Removes what ended processes left behind, once per process. */
export function sweepUnclaimedFolders(keyFolders: string): void {
  if (sweptFolders.has(keyFolders)) return;
  sweptFolders.add(keyFolders);
  for (const name of readdirSync(keyFolders)) {
    const pid = name.startsWith(UNCLAIMED_PREFIX)
      ? Number(name.slice(UNCLAIMED_PREFIX.length).split('-')[0])
      : process.pid;
    if (pid !== process.pid && !isProcessAlive(pid)) discardUnclaimedFolder(join(keyFolders, name));
  }
}

function makeSubfolders({ path: own, root, uid, gid, owner }: KeyFolder): void {
  for (const name of ['home', 'workspace']) {
    const path = join(own, name);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    if (facts && !facts.isDirectory()) throw new CellaError('INVALID_OPTIONS', `dataDir: ${path} is not a folder.`);
    if (facts) continue;
    mkdirSync(path, { mode: 0o700 });
    // Code of a fork may run here already, and may have put a link in the folder's place.
    if (root) lchownSync(path, ...(owner ?? ([uid, gid] as const)));
  }
}

const realPaths = new Map<string, string>();

/** The real path of the data folder; makes it if missing, for this user only. */
export function dataFolder(wanted: string | undefined): string {
  const named = wanted ?? readProcessConfig().dataDir;
  const known = realPaths.get(named);
  if (known !== undefined) return known;
  const path = resolve(named);
  try {
    // Making folders in /proc and the like never ends.
    const top = path.split('/')[1] ?? '';
    if (['proc', 'sys', 'dev'].includes(top)) throw new Error(`/${top} contains no files`);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const real = realpathSync.native(path);
    realPaths.set(named, real);
    return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `dataDir: ${folderProblem(path, cause)}.`, { cause });
  }
}

/** Changes with every new entry. */
export type PackageFolderStat = Pick<Stats, 'dev' | 'ino' | 'mtimeMs' | 'ctimeMs'> | undefined;

/** By path: the state of a folder that was empty, long after its last change. */
const knownEmpty = new Map<string, string>();

/** Makes it if missing. */
export function ensurePackageFolder(path: string): PackageFolderStat {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory()) return facts;
  mkdirSync(path, { recursive: true, mode: 0o755 });
  return undefined;
}

/** Whether any package set was ever made there. */
export function hasPackageSets(path: string, facts: PackageFolderStat): boolean {
  const state = facts && [facts.dev, facts.ino, facts.mtimeMs, facts.ctimeMs].join(' ');
  if (state !== undefined && knownEmpty.get(path) === state) return false;
  const found = readdirSync(path).length > 0;
  if (!found && facts && state !== undefined && isStable(facts)) knownEmpty.set(path, state);
  return found;
}

type WorkspaceOption = 'cwd' | 'executor' | 'sandbox' | 'folderLinks' | 'folderIds';

interface WorkspaceQuery extends Pick<SessionOptions, WorkspaceOption> {
  readonly agentKey: string;
  /** A real path, without symbolic links. */
  readonly dataDir: string;
}

/** Undefined if no kernel has made it yet. */
export async function findWorkspace(whose: WorkspaceQuery, records: RecordStore): Promise<FilesRoot | undefined> {
  const { agentKey, cwd, dataDir, folderLinks, folderIds, executor = 'subprocess', sandbox } = whose;
  await checkFoldersAnswer({ cwd });
  // A fork works in the folder of its parent.
  const owner = (await records.get(agentKey))?.workspaceOf ?? agentKey;
  const own = join(dataDir, 'agents', folderName(owner));
  const isolated = executor === 'container' || (executor === 'subprocess' && sandbox !== 'off');
  const elsewhere = cwd === undefined ? undefined : resolveFolder(resolve(cwd), 'cwd', dataDir, folderLinks);
  const path = elsewhere ?? join(own, 'workspace');
  if (elsewhere === undefined && !folderExists(path)) return undefined;
  const id = elsewhere === undefined ? undefined : checkFolderId(elsewhere, folderIds?.[elsewhere]);
  const inside = elsewhere ?? join(executor === 'in-process' || isolated ? KEY_FOLDER_INSIDE : own, 'workspace');
  if (!isolated || process.getuid?.() !== 0) return { path, inside, id };
  const rights = fileRights(path, join(own, 'home'), executor === 'container');
  return rights && { path, inside, id, rights };
}

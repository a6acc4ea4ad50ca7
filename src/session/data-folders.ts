/** The folders in the data folder: one for each agent key (its workspace and home), and one for package sets. */

import {
  chmodSync,
  chownSync,
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
import { systemCode } from '../lib/errno.ts';
import { isStable } from '../lib/private-file.ts';
import { isProcessAlive } from '../lib/process-identity.ts';
import { CellaError } from '../protocol/errors.ts';
import { fileRights, isSandboxUid, type SandboxUser, sandboxUser } from '../sandbox/sandbox-user.ts';
import { checkFolderId, folderProblem, resolveFolder } from '../sandbox/spec.ts';
import { readProcessConfig } from '../settings/process-config.ts';
import type { RecordStore } from '../storage/contract.ts';
import { folderName } from '../storage/folder-name.ts';
import type { SessionOptions } from './session-options.ts';

/** What it is called inside a sandbox, whatever the key is. */
export const KEY_FOLDER_INSIDE = '/agent';
const UNCLAIMED_PREFIX = '.new-';

export interface KeyFolder extends SandboxUser {
  /** Holds `workspace` and `home`, and nothing else. */
  readonly path: string;
  /** Set where the files on disk belong to another user than the sandbox's. */
  readonly owner?: readonly [uid: number, gid: number];
}

let madeFolders = 0;

/** One that is nobody's yet. */
export function makeUnclaimedFolder(agents: string, isolated: boolean): KeyFolder {
  const own = join(agents, `${UNCLAIMED_PREFIX}${process.pid}-${Date.now().toString(36)}-${madeFolders++}`);
  mkdirSync(agents, { recursive: true, mode: 0o700 });
  mkdirSync(own);
  // Only the host's user comes as far as here, so that all may look at it. Whatever the umask of this process is.
  chmodSync(own, 0o755);
  const identity = sandboxUser(own, isolated);
  makeSubfolders({ path: own, ...identity });
  return { path: own, ...identity };
}

/** The home of a key, if it has one. */
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
  // Copied from elsewhere, or made without a sandbox: it is shown to the code as its own, and stays as it is on disk.
  const home: KeyFolder = isSandboxUid(uid)
    ? { path: own, root: true, uid, gid }
    : { path: own, ...fresh, owner: [uid, gid] };
  makeSubfolders(home);
  return home;
}

export function folderExists(own: string): boolean {
  return lstatSync(own, { throwIfNoEntry: false }) !== undefined;
}

/** Gives a folder that is nobody's to a key; false where the key has one by now. */
export function claimKeyFolder(nobodys: string, own: string): boolean {
  try {
    renameSync(nobodys, own);
    return true;
  } catch (cause) {
    const code = systemCode(cause);
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') return false;
    throw cause;
  }
}

/** The home of a key, made where there is none. */
export function ensureKeyFolder(own: string, isolated: boolean): KeyFolder {
  const found = findKeyFolder(own, isolated);
  if (found) return found;
  const fresh = makeUnclaimedFolder(dirname(own), isolated);
  if (claimKeyFolder(fresh.path, own)) return { ...fresh, path: own };
  discardUnclaimedFolder(fresh.path);
  const theirs = findKeyFolder(own, isolated);
  if (!theirs) throw new CellaError('STORAGE_FAILED', `${own} was made and removed by somebody else at the same time.`);
  return theirs;
}

/** Removes a home that became nobody's. */
export function discardUnclaimedFolder(own: string): void {
  if (basename(own).startsWith(UNCLAIMED_PREFIX)) rmSync(own, { recursive: true, force: true });
}

/** Folders of agents that sessions of this process work in: how many do, and whether the agent itself was destroyed. */
const foldersInUse = new Map<string, { sessions: number; orphaned: boolean }>();

/** Gives what to call at the end of the session. */
export function enterKeyFolder(own: string): () => void {
  const home = foldersInUse.get(own) ?? { sessions: 0, orphaned: false };
  foldersInUse.set(own, home);
  home.sessions++;
  return () => {
    home.sessions--;
    if (home.sessions === 0 && !home.orphaned) foldersInUse.delete(own);
  };
}

/**
 * Whether nobody works in the folder of a destroyed agent any more: it lives until its last session is destroyed.
 * `others` tells whether storage knows of one; undefined where nothing is kept there.
 */
export async function isKeyFolderUnused(
  own: string,
  mine: boolean,
  others: (() => Promise<boolean>) | undefined,
): Promise<boolean> {
  const home = foldersInUse.get(own);
  if (mine && home) home.orphaned = true;
  if (home && home.sessions > 0) return false;
  // Without records, only who it belongs to says that it is not needed any more.
  const unused = others ? !(await others()) : mine || home?.orphaned === true;
  if (unused) foldersInUse.delete(own);
  return unused;
}

const sweptFolders = new Set<string>();

/** Removes what processes that are gone have left; once a process. */
export function sweepUnclaimedFolders(agents: string): void {
  if (sweptFolders.has(agents)) return;
  sweptFolders.add(agents);
  for (const name of readdirSync(agents)) {
    const pid = name.startsWith(UNCLAIMED_PREFIX)
      ? Number(name.slice(UNCLAIMED_PREFIX.length).split('-')[0])
      : process.pid;
    if (pid !== process.pid && !isProcessAlive(pid)) discardUnclaimedFolder(join(agents, name));
  }
}

function makeSubfolders({ path: own, root, uid, gid, owner }: KeyFolder): void {
  for (const name of ['home', 'workspace']) {
    const path = join(own, name);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    if (facts && !facts.isDirectory()) throw new CellaError('INVALID_OPTIONS', `dataDir: ${path} is not a folder.`);
    if (facts) continue;
    mkdirSync(path, { mode: 0o700 });
    if (root) chownSync(path, ...(owner ?? ([uid, gid] as const)));
  }
}

const realPaths = new Map<string, string>();

/** Made where it is missing, for this user alone, and freed of symbolic links. */
export function dataFolder(wanted: string | undefined): string {
  const named = wanted ?? readProcessConfig().dataDir;
  const known = realPaths.get(named);
  if (known !== undefined) return known;
  const path = resolve(named);
  try {
    // Making folders in /proc and its like never ends.
    const place = path.split('/')[1] ?? '';
    if (['proc', 'sys', 'dev'].includes(place)) throw new Error(`/${place} holds no files of its own`);
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const real = realpathSync.native(path);
    realPaths.set(named, real);
    return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `dataDir: ${folderProblem(path, cause)}.`, { cause });
  }
}

/** What changes with every entry that comes. */
export type PackageFolderStat = Pick<Stats, 'dev' | 'ino' | 'mtimeMs' | 'ctimeMs'> | undefined;

/** By path: what was known of a folder when it was seen to be empty, long after its last change. */
const knownEmpty = new Map<string, string>();

/** Made where it is missing. */
export function ensurePackageFolder(path: string): PackageFolderStat {
  const facts = statSync(path, { throwIfNoEntry: false });
  if (facts?.isDirectory()) return facts;
  mkdirSync(path, { recursive: true, mode: 0o755 });
  return undefined;
}

/** Whether any package set was ever made there. */
export function hasPackageSets(path: string, facts: PackageFolderStat): boolean {
  const told = facts && [facts.dev, facts.ino, facts.mtimeMs, facts.ctimeMs].join(' ');
  if (told !== undefined && knownEmpty.get(path) === told) return false;
  const found = readdirSync(path).length > 0;
  if (!found && facts && told !== undefined && isStable(facts)) knownEmpty.set(path, told);
  return found;
}

type WorkspaceOption = 'cwd' | 'executor' | 'sandbox' | 'folderLinks' | 'folderIds';

export interface WorkspaceQuery extends Pick<SessionOptions, WorkspaceOption> {
  readonly agentKey: string;
  /** Freed of symbolic links. */
  readonly dataDir: string;
}

/** Undefined where no kernel has ever been there, so that it is still to be made. */
export async function findWorkspace(whose: WorkspaceQuery, records: RecordStore): Promise<FilesRoot | undefined> {
  const { agentKey, cwd, dataDir, folderLinks, folderIds, executor = 'subprocess', sandbox } = whose;
  // A fork works in the folder of the agent that it was forked from.
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

/**
 * Folders that a caller names for a session: whether they answer and are allowed, how to mount them, and how to recognise them
 * later. A disk or network share that hangs blocks every caller, even a synchronous call: one such folder would stop the event
 * loop for all sessions.
 */

import { accessSync, type BigIntStats, constants, lstatSync, realpathSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { settlesWithin } from '../lib/deadline.ts';
import { bootId } from '../lib/process-identity.ts';
import { Semaphore } from '../lib/queues.ts';
import { messageOf, systemCode } from '../lib/values.ts';
import type { FolderId, Mount } from '../protocol/environment-spec.ts';
import { CellaError, folderHangs } from '../protocol/errors.ts';

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
  const replaced = () => new CellaError('FOLDER_REPLACED', `${option}: the path ${path} now contains a link.`);
  if (links === 'refused' && hasLink(path)) throw replaced();
  let real: string;
  let isFolder: boolean;
  try {
    real = realpathSync.native(path);
    isFolder = statSync(real).isDirectory();
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${folderProblem(path, cause)}.`, { cause });
  }
  if (!isFolder) throw new CellaError('INVALID_OPTIONS', `${option}: ${path} is not a folder.`);
  if (links === 'refused' && real !== path) throw replaced();
  if (SYSTEM_FOLDERS.includes(real)) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name a folder inside it.`);
  }
  if (SYSTEM_TREES.some((tree) => `${real}/`.startsWith(`${tree}/`))) {
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} belongs to the system; name another folder.`);
  }
  if (`${dataDir}/`.startsWith(`${real}/`) || `${real}/`.startsWith(`${dataDir}/`)) {
    const why = 'it contains or is inside Cella’s data folder, which has the workspaces of other sessions';
    throw new CellaError('INVALID_OPTIONS', `${option}: ${real} cannot be mounted into a sandbox: ${why}.`);
  }
  return real;
}

/** Does not look up what a link leads to: the error would tell code whether that exists. */
function hasLink(path: string): boolean {
  const names = path.split('/');
  return names.some((_, index) => {
    try {
      return lstatSync(names.slice(0, index + 1).join('/') || '/').isSymbolicLink();
    } catch {
      return false; // it does not exist, or is closed to this process
    }
  });
}

/** The folder's current identity. Throws `FOLDER_REPLACED` if it differs from the recorded one. */
export function checkFolderId(path: string, recorded: FolderId | undefined): FolderId {
  return checkSameFolder(path, folderId(path), recorded);
}

function checkSameFolder(path: string, id: FolderId, recorded: FolderId | undefined): FolderId {
  if (!recorded || isSameFolder(id, recorded)) return id;
  throw new CellaError('FOLDER_REPLACED', `${path} is not the folder that the session was created with.`);
}

/** Why a folder cannot be used, as text for an error. */
export function folderProblem(path: string, cause: unknown): string {
  const code = systemCode(cause);
  if (code === 'ENOENT' || code === 'ENOTDIR') return `there is no folder ${path}`;
  if (code === 'EEXIST') return `${path} is not a folder`;
  if (code === 'EACCES') return `this user cannot open the folder ${path}`;
  return `${path} cannot be used: ${messageOf(cause)}`;
}

interface NamedFolderOptions {
  /** Whether the sandbox runs as a different user from this process. */
  readonly root: boolean;
  /** The identity that the folder had when the session was made. */
  readonly recorded?: FolderId | undefined;
}

/**
 * A folder that code may change. A root host mounts it under its owner; any other host needs write access itself. Owner and
 * identity come from one call: other code may replace the folder between two, and a mount under another folder's owner would
 * give that owner's rights.
 */
export function writableFolder(path: string, { root, recorded }: NamedFolderOptions): Mount {
  const { id, owner } = inspectFolder(path, recorded);
  if (root) return { path, id, owner };
  try {
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new CellaError('WORKSPACE_NOT_WRITABLE', `This user cannot write to ${path}.`, { cause });
  }
  return { path, id };
}

/** A folder that code may read. If others cannot read it, a root host mounts it under its owner. */
export function readableFolder(path: string, { root, recorded }: NamedFolderOptions): Mount {
  const { id, owner, mode } = inspectFolder(path, recorded);
  return root && (mode & 0o005) !== 0o005 ? { path, id, owner } : { path, id };
}

function inspectFolder(path: string, recorded: FolderId | undefined) {
  const facts = statSync(path, { bigint: true });
  const owner: [uid: number, gid: number] = [Number(facts.uid), Number(facts.gid)];
  return { id: checkSameFolder(path, folderIdOfStats(facts), recorded), owner, mode: Number(facts.mode) };
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

const TIMEOUT_MS = 5000;
const slots = new Semaphore(4);
/** The most folders that may hang: each occupies a thread of this process until the folder answers. */
const MOST_LATE = 16;

/** A running check of one folder. Later callers share it; once it has a `problem`, they are refused until it ends. */
interface FolderCheck {
  problem: string | undefined;
  /** Resolves when the folder has answered or has a problem. */
  done: Promise<void>;
}

const checks = new Map<string, FolderCheck>();

interface FolderSettings {
  readonly cwd?: string | undefined;
  readonly sandbox?:
    | string
    | { readonly readable?: readonly string[]; readonly writable?: readonly string[] }
    | undefined;
}

/** The folders outside the data folder that a session asks for. The settings may be invalid; they are validated later. */
export function namedFolders({ cwd, sandbox }: FolderSettings): string[] {
  const { readable, writable } = (typeof sandbox === 'object' ? sandbox : undefined) ?? {};
  const named: unknown[] = [cwd, readable, writable].flat();
  return named.filter((path) => typeof path === 'string').map((path) => resolve(path));
}

/** Call before any synchronous work in these folders. */
export async function checkFoldersAnswer(settings: FolderSettings): Promise<void> {
  await Promise.all(namedFolders(settings).map(checkFolderAnswers));
}

export async function checkFolderAnswers(path: string): Promise<void> {
  const current = checks.get(path) ?? startCheck(path);
  if (current.problem === undefined) await current.done;
  if (current.problem !== undefined) throw folderHangs(`The folder ${path} ${current.problem}.`);
}

/**
 * Waits for work in a folder while the folder answers. Abandoned work keeps running and keeps its thread; `undo` gets its
 * result.
 */
export async function whileFolderAnswers<T>(
  path: string,
  work: Promise<T>,
  undo: (late: T) => unknown = () => {},
): Promise<T> {
  const hangs = Promise.withResolvers<never>();
  let over = false;
  const finished = work.finally(() => {
    over = true;
  });
  const check = () =>
    checkFolderAnswers(path).catch((error) => {
      if (over) return;
      over = true;
      // The caller has already got an error.
      work.then(undo).catch(() => {});
      hangs.reject(error);
    });
  if (checks.get(path)?.problem !== undefined) void check();
  const timer = setInterval(check, TIMEOUT_MS);
  try {
    return await Promise.race([finished, hangs.promise]);
  } finally {
    clearInterval(timer);
  }
}

function startCheck(path: string): FolderCheck {
  const current: FolderCheck = { problem: undefined, done: Promise.resolve() };
  checks.set(path, current);
  current.done = slots.run(() => runCheck(path, current));
  return current;
}

async function runCheck(path: string, current: FolderCheck): Promise<void> {
  if ([...checks.values()].filter(({ problem }) => problem !== undefined).length >= MOST_LATE) {
    current.problem = `cannot be checked while ${MOST_LATE} others do not answer`;
    checks.delete(path);
    return;
  }
  // An error of the folder itself is reported when it is used.
  const answered = stat(path).then(
    () => {},
    () => {},
  );
  void answered.then(() => checks.delete(path));
  if (!(await settlesWithin(answered, TIMEOUT_MS))) current.problem = `has not answered for ${TIMEOUT_MS / 1000} s`;
}

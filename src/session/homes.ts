/**
 * The folder of an agent: its workspace and its home, in the data folder, owned by the user that its sandbox runs as.
 *
 * It is made under a name that is nobody's and takes its place whole, so that two processes never make it together.
 */

import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { CellaError } from '../protocol/errors.ts';
import { isSandboxUid, type SandboxUser, sandboxUser } from '../sandbox/sandbox-user.ts';

/** What it is called inside a sandbox, whatever the key is. */
export const INSIDE = '/agent';
const NOBODYS = '.new-';

export interface Home extends SandboxUser {
  /** Holds `workspace` and `home`, and nothing else. */
  readonly own: string;
  /** Set where the files on disk belong to another user than the sandbox's. */
  readonly owner?: readonly [uid: number, gid: number];
}

let made = 0;

/** One that is nobody's yet. */
export function makeHome(agents: string, isolated: boolean): Home {
  const own = join(agents, `${NOBODYS}${process.pid}-${Date.now().toString(36)}-${made++}`);
  mkdirSync(agents, { recursive: true, mode: 0o700 });
  mkdirSync(own);
  // Only the host's user comes as far as here, so that all may look at it. Whatever the umask of this process is.
  chmodSync(own, 0o755);
  const identity = sandboxUser(own, isolated);
  fill({ own, ...identity });
  return { own, ...identity };
}

/** The home of a key, if it has one. */
function findHome(own: string, isolated: boolean): Home | undefined {
  const facts = lstatSync(own, { throwIfNoEntry: false });
  if (facts === undefined) return undefined;
  if (!facts.isDirectory()) throw new CellaError('INVALID_OPTIONS', `dataDir: ${own} is not a folder.`);
  if ((facts.mode & 0o777) !== 0o755) chmodSync(own, 0o755);
  const fresh = sandboxUser(own, isolated);
  const workspace = lstatSync(join(own, 'workspace'), { throwIfNoEntry: false });
  if (!fresh.root || workspace === undefined) {
    fill({ own, ...fresh });
    return { own, ...fresh };
  }
  const { uid, gid } = workspace;
  // Copied from elsewhere, or made without a sandbox: it is shown to the code as its own, and stays as it is on disk.
  const home: Home = isSandboxUid(uid) ? { own, root: true, uid, gid } : { own, ...fresh, owner: [uid, gid] };
  fill(home);
  return home;
}

export function exists(own: string): boolean {
  return lstatSync(own, { throwIfNoEntry: false }) !== undefined;
}

/** Gives a folder that is nobody's to a key; false where the key has one by now. */
export function claimHome(nobodys: string, own: string): boolean {
  try {
    renameSync(nobodys, own);
    return true;
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOTDIR') return false;
    throw cause;
  }
}

/** The home of a key, made where there is none. */
export function homeOf(own: string, isolated: boolean): Home {
  const found = findHome(own, isolated);
  if (found) return found;
  const fresh = makeHome(dirname(own), isolated);
  if (claimHome(fresh.own, own)) return { ...fresh, own };
  discardHome(fresh.own);
  const theirs = findHome(own, isolated);
  if (!theirs) throw new CellaError('STORAGE_FAILED', `${own} was made and removed by somebody else at the same time.`);
  return theirs;
}

/** Removes a home that became nobody's. */
export function discardHome(own: string): void {
  if (basename(own).startsWith(NOBODYS)) rmSync(own, { recursive: true, force: true });
}

/** Folders of agents that sessions of this process work in: how many do, and whether the agent itself was destroyed. */
const shared = new Map<string, { sessions: number; orphaned: boolean }>();

/** Gives what to call at the end of the session. */
export function enterHome(own: string): () => void {
  const home = shared.get(own) ?? { sessions: 0, orphaned: false };
  shared.set(own, home);
  home.sessions++;
  return () => {
    home.sessions--;
    if (home.sessions === 0 && !home.orphaned) shared.delete(own);
  };
}

/**
 * Whether nobody works in the folder of a destroyed agent any more: it lives until its last session is destroyed.
 * `others` tells whether storage knows of one; undefined where nothing is kept there.
 */
export async function isUnused(
  own: string,
  mine: boolean,
  others: (() => Promise<boolean>) | undefined,
): Promise<boolean> {
  const home = shared.get(own);
  if (mine && home) home.orphaned = true;
  if (home && home.sessions > 0) return false;
  // Without records, only who it belongs to says that it is not needed any more.
  const unused = others ? !(await others()) : mine || home?.orphaned === true;
  if (unused) shared.delete(own);
  return unused;
}

const swept = new Set<string>();

/** Removes what processes that are gone have left; once a process. */
export function sweepHomes(agents: string): void {
  if (swept.has(agents)) return;
  swept.add(agents);
  for (const name of readdirSync(agents)) {
    const pid = name.startsWith(NOBODYS) ? Number(name.slice(NOBODYS.length).split('-')[0]) : process.pid;
    if (pid !== process.pid && !lives(pid)) discardHome(join(agents, name));
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

function fill({ own, root, uid, gid, owner }: Home): void {
  for (const name of ['home', 'workspace']) {
    const path = join(own, name);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    if (facts && !facts.isDirectory()) throw new CellaError('INVALID_OPTIONS', `dataDir: ${path} is not a folder.`);
    if (facts) continue;
    mkdirSync(path, { mode: 0o700 });
    if (root) chownSync(path, ...(owner ?? ([uid, gid] as const)));
  }
}

/** The user that a sandbox runs as: on a root host a user of its own per agent, otherwise the host's user. */

import { lstatSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

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

/** Whether a uid is one that `identityOf` gives. */
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

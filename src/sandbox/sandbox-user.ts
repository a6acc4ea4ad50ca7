/** The user that a sandbox runs as, and its code's rights over the folders of its session. */

import { lstatSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';

/** The user that a sandbox runs as: on a root host one user per agent key, otherwise the host's user. */
export interface SandboxUser {
  /** Whether this process is root and the sandbox another user. */
  readonly root: boolean;
  readonly uid: number;
  readonly gid: number;
}

/** Far from the ranges of people, system services and containers. The small range is for hosts inside a container. */
const RANGES = [
  { first: 1_900_000_000, count: 67_108_864 },
  { first: 20_000, count: 40_000 },
] as const;

/** The first uid of each range. */
export const firstUids: readonly number[] = RANGES.map(({ first }) => first);

/**
 * Chooses a user for a folder that has none yet. No two existing folders of a file system have the same number. In the small
 * range two may still share a user; then only mounts and namespaces separate them.
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

/** The rights of a session's code over its own folder, on a host that runs as root. */
export interface FileRights {
  readonly uid: number;
  readonly gid: number;
  /** Whether the code sees the folder through an idmapped mount. The user is then the folder's owner on disk. */
  readonly mapped: boolean;
}

/**
 * `home` lies next to the workspace of an agent key and belongs to the user of its code. Undefined if that user is unknown
 * before the first kernel starts.
 */
export function fileRights(path: string, home: string, container: boolean): FileRights | undefined {
  const facts = lstatSync(home, { throwIfNoEntry: false });
  // With an idmapped mount the code acts as the folder's owner, whatever its uid.
  if (!facts) return container ? undefined : { ...sandboxUser(dirname(path), true), mapped: true };
  const ours = isSandboxUid(facts.uid);
  const { uid, gid } = ours ? facts : sandboxUser(dirname(home), true);
  const own = dirname(path) === dirname(home);
  return { uid, gid, mapped: !container && !(own && ours) };
}

/** Whether the mode of a file gives this user the wanted permissions, such as 4 for reading. */
export function permits(
  file: { readonly mode: number; readonly uid: number; readonly gid: number },
  { uid, gid }: Pick<SandboxUser, 'uid' | 'gid'>,
  wanted: number,
): boolean {
  const shift = file.uid === uid ? 6 : file.gid === gid ? 3 : 0;
  return ((file.mode >> shift) & wanted) === wanted;
}

let mappedUids: number | undefined;

/** The largest uid that this process's user namespace maps; it never changes. */
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

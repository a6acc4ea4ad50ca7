/** The user that a sandbox runs as: on a root host one of its own for every agent, else the host's. */

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

export interface Identity {
  readonly root: boolean;
  readonly uid: number;
  readonly gid: number;
}

/** Far from the ranges of people, system services and containers; the small one is for hosts inside a container. */
const RANGES = [
  { first: 1_900_000_000, count: 67_108_864 },
  { first: 20_000, count: 40_000 },
];

/** The same agent key in the same data folder always has the same uid, so that its files stay its own. */
export function identityFor(dataDir: string, agentKey: string): Identity {
  const uid = process.getuid?.() ?? 0;
  if (uid !== 0 || process.platform !== 'linux') return { root: false, uid, gid: process.getgid?.() ?? uid };
  const mapped = largestMappedUid();
  const range = RANGES.find(({ first, count }) => first + count <= mapped) ?? RANGES[1];
  if (!range) throw new Error('no range of uids');
  const hash = createHash('sha256').update(`${dataDir}\0${agentKey}`).digest().readUInt32LE(0);
  const own = range.first + (hash % range.count);
  return { root: true, uid: own, gid: own };
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

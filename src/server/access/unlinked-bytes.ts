/**
 * Room on the disk that files without a name take: code has opened or mapped them and then removed them. They are found by
 * the processes that hold them, which on a root host run as the user that owns the agent's folder.
 */

import type { BigIntStats } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isSandboxUid } from '../../sandbox/sandbox-user.ts';

const MOST_LOOKED_AT = 50_000;
const BLOCK_BYTES = 512n;

/** `folders` are those of agents. Without an end where there is too much to look at. 0 where they have no user of their own. */
export async function unlinkedBytes(folders: readonly string[]): Promise<number> {
  const homes = await Promise.all(folders.map((folder) => factsOf(join(folder, 'home'))));
  const own = homes.filter((home) => home !== undefined && isSandboxUid(Number(home.uid)));
  const [uids, devices] = [new Set(own.map((home) => Number(home?.uid))), new Set(own.map((home) => home?.dev))];
  if (uids.size === 0) return 0;
  const found = new Map<string, bigint>();
  let lookedAt = 0;
  for (const pid of await namesIn('/proc')) {
    if (!/^\d+$/.test(pid) || !uids.has(await uidOf(pid))) continue;
    for (const path of await heldBy(pid)) {
      if (++lookedAt > MOST_LOOKED_AT) return Infinity;
      const facts = await factsOf(path);
      // What lies in memory is counted as memory.
      if (!facts?.isFile() || facts.nlink !== 0n || !devices.has(facts.dev)) continue;
      found.set(`${facts.dev}:${facts.ino}`, facts.blocks * BLOCK_BYTES);
    }
  }
  return Number([...found.values()].reduce((sum, bytes) => sum + bytes, 0n));
}

/** Not by the owner of its folder: a process can hide that. */
async function uidOf(pid: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => ''); // it has ended
  return Number(/^Uid:\t\d+\t(\d+)/m.exec(status)?.[1] ?? -1);
}

/** Paths to what a process has open, and to what it has mapped and that was removed. */
async function heldBy(pid: string): Promise<string[]> {
  const [open, maps] = await Promise.all([
    namesIn(`/proc/${pid}/fd`),
    readFile(`/proc/${pid}/maps`, 'latin1').catch(() => ''), // it has ended
  ]);
  const removed = maps.split('\n').filter((line) => line.endsWith(' (deleted)'));
  return [
    ...open.map((fd) => `/proc/${pid}/fd/${fd}`),
    ...removed.map((line) => `/proc/${pid}/map_files/${plain(line.split(' ', 1)[0] ?? '')}`),
  ];
}

/** Ranges have zeros in front in one file and not in the other. */
const plain = (range: string): string =>
  range
    .split('-')
    .map((address) => address.replace(/^0+(?=.)/, ''))
    .join('-');

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch(() => []); // it has ended, or this is no Linux
}

async function factsOf(path: string): Promise<BigIntStats | undefined> {
  return await stat(path, { bigint: true }).catch(() => undefined); // it is gone
}

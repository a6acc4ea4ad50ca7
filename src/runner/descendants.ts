/**
 * The processes that came from this one: what an agent has started must not outlive its runner. Unlike the sandbox's
 * process tree, it finds those below a process that adopts orphans, and not those with a mark.
 */

import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { listProcesses } from '../lib/process-identity.ts';

/** All descendants, and orphans in the root's process group or control group. Without the spared ones and their descendants. */
function treeBelow(root: number, spared: ReadonlySet<number> = new Set()): number[] {
  const all = listProcesses().filter(({ pid, hasEnded }) => !hasEnded && !spared.has(pid));
  const leads = all.some(({ pid, group }) => pid === root && group === root);
  const control = ownControlGroup(root);
  const found = new Set<number>([root]);
  for (const { pid } of all) if (control !== undefined && controlGroupOf(pid) === control) found.add(pid);
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const { pid, parent, group } of all) {
      if (found.has(parent) || (leads && group === root)) found.add(pid);
    }
  }
  found.delete(root);
  return [...found];
}

/** The control group that a local environment made for this process alone. Processes cannot leave it. */
function ownControlGroup(root: number): string | undefined {
  const group = controlGroupOf(root);
  return group?.includes('/cella-local-') ? group : undefined;
}

function controlGroupOf(pid: number): string | undefined {
  try {
    return /^0::.*$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'latin1'))?.[0];
  } catch {
    return undefined; // it has ended, or this is not Linux
  }
}

/** Rounds and pause of the search, for processes that fork while it runs. */
const MOST_ROUNDS = 200;
const ROUND_MS = 5;

/**
 * Kills all processes below `root`, which adopts orphans, except this one and the spared. False if new ones keep
 * appearing.
 */
export async function killSubtree(root: number, spared: ReadonlySet<number>): Promise<boolean> {
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const left = treeBelow(root, spared).filter((pid) => pid !== process.pid);
    if (left.length === 0) return true;
    for (const pid of left) kill(pid);
    await delay(ROUND_MS);
  }
  return false;
}

/** Synchronous, so that an exit handler can call it. */
export function killDescendants(root = process.pid): void {
  for (const pid of treeBelow(root)) kill(pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended, or belongs to another user.
  }
}

/**
 * The processes that came from this one: what an agent has started must not outlive its runner. It reads /proc by itself,
 * as the sandbox's process tree does on the host: the runner is one small file and imports nothing of the host's, and
 * looks for others: those below a process that adopts orphans, and not those with a mark.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

interface Process {
  readonly pid: number;
  /** It has ended, and waits for whoever started it to look. */
  readonly dead: boolean;
  readonly parent: number;
  readonly group: number;
}

/** Children, theirs, and what has lost its parent but is still of the root's own groups. Not what is spared, nor what came from that. */
function treeBelow(root: number, spared: ReadonlySet<number> = new Set()): number[] {
  const all = processes().filter(({ pid, dead }) => !dead && !spared.has(pid));
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

/** Where a local environment has given this process one for itself: nobody else is in it, and nobody gets out of it. */
function ownControlGroup(root: number): string | undefined {
  const group = controlGroupOf(root);
  return group?.includes('/cella-local-') ? group : undefined;
}

function controlGroupOf(pid: number): string | undefined {
  try {
    return /^0::.*$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'latin1'))?.[0];
  } catch {
    return undefined; // it has ended, or this is no Linux
  }
}

/** How often, and how long apart, processes that fork faster than they are found are looked for. */
const MOST_ROUNDS = 200;
const ROUND_MS = 5;

/**
 * Ends what came from `root`, which adopts whoever has lost its parent, but for this process and what is spared. False
 * where it finds no end.
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

/** At once, and without waiting: it can be called where a process ends. */
export function killDescendants(root = process.pid): void {
  for (const pid of treeBelow(root)) kill(pid);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile, or is not ours to end.
  }
}

/** How many threads it has: the place of that among what follows the name. */
const THREADS = 17;

function processes(): Process[] {
  let names: string[];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    // No Linux: the environment ends the whole tree by itself.
    return [];
  }
  return names.flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      // The name of the program may hold anything, brackets too; what follows the last of them is numbers.
      const facts = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const [state = '', parent, group] = facts;
      // One whose first thread alone has ended looks the same, and goes on.
      const dead = 'ZX'.includes(state) && Number(facts[THREADS]) <= 1;
      return [{ pid: Number(name), dead, parent: Number(parent), group: Number(group) }];
    } catch {
      // Ended between the two looks.
      return [];
    }
  });
}

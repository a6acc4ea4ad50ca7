/** The processes that came from this one: what an agent has started must not outlive its runner. */

import { readdirSync, readFileSync } from 'node:fs';

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
}

/** Children, theirs, and what has lost its parent but is still of the root's own process group. */
function treeBelow(root: number): number[] {
  const all = processes();
  const leads = all.some(({ pid, group }) => pid === root && group === root);
  const found = new Set<number>([root]);
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const { pid, parent, group } of all) {
      if (found.has(parent) || (leads && group === root)) found.add(pid);
    }
  }
  found.delete(root);
  return [...found];
}

/** At once, and without waiting: it can be called where a process ends. */
export function killDescendants(root = process.pid): void {
  for (const pid of treeBelow(root)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile, or is not ours to end.
    }
  }
}

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
      const [, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return [{ pid: Number(name), parent: Number(parent), group: Number(group) }];
    } catch {
      // Ended between the two looks.
      return [];
    }
  });
}

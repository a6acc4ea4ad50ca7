/** Processes as /proc shows them to the host. */

import { readdirSync, readFileSync } from 'node:fs';

export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  readonly command: string;
}

function look(pid: string): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
    return { pid: Number(pid), parent: Number(parent), state, command };
  } catch {
    return undefined; // it ended while we looked
  }
}

/** Every process that lives; one that has ended and waits for its parent does not. */
export function processes(): Process[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return all.map(look).filter((one) => one !== undefined && one.state !== 'Z') as Process[];
}

/** Everything that came from this process, children of children included. */
export function descendants(root: number): Process[] {
  const all = processes();
  const found = new Set([root]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return all.filter(({ pid }) => pid !== root && found.has(pid));
}

/** The templates of a host, each with its folder. */
export function templatesOf(host: number): { pid: number; folder: string }[] {
  const own = processes().filter(({ parent, command }) => parent === host && command.includes('cella_kernel template'));
  return own.map(({ pid, command }) => ({ pid, folder: /"folder":"([^"]+)"/.exec(command)?.[1] ?? '' }));
}

export const isAlive = (pid: number): boolean => processes().some((one) => one.pid === pid);

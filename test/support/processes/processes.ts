/** Processes as /proc shows them to the host. */

import { readdirSync, readFileSync } from 'node:fs';

export interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly state: string;
  readonly command: string;
}

type Seen = Omit<Process, 'command'>;

function look(pid: string): Seen | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [state = '', parent = ''] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { pid: Number(pid), parent: Number(parent), state };
  } catch {
    return undefined; // it ended while we looked
  }
}

/** Every process that lives; one that has ended and waits for its parent does not. */
function living(): Seen[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return all.map(look).filter((one) => one !== undefined && one.state !== 'Z') as Seen[];
}

/** To read what a process was started with costs more than all the rest: it is done for those who are meant. */
function withCommands(some: readonly Seen[]): Process[] {
  return some.flatMap((one) => {
    try {
      const command = readFileSync(`/proc/${one.pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      return [{ ...one, command }];
    } catch {
      return []; // it ended while we looked
    }
  });
}

export function processes(): Process[] {
  return withCommands(living());
}

/** Everything that came from this process, children of children included. */
export function descendants(root: number): Process[] {
  const all = living();
  const found = new Set([root]);
  for (let before = 0; before !== found.size; ) {
    before = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return withCommands(all.filter(({ pid }) => pid !== root && found.has(pid)));
}

/** The templates of a host, each with its folder. */
export function templatesOf(host: number): { pid: number; folder: string }[] {
  const children = withCommands(living().filter(({ parent }) => parent === host));
  const own = children.filter(({ command }) => command.includes('cella_kernel template'));
  return own.map(({ pid, command }) => ({ pid, folder: /"folder":"([^"]+)"/.exec(command)?.[1] ?? '' }));
}

/** The template of this host that a process came from. There may be several, and a later one may have the lower number. */
export function templateAbove(pid: number): number {
  const templates = new Set(templatesOf(process.pid).map((one) => one.pid));
  let at = pid;
  while (at > 1 && !templates.has(at)) at = look(String(at))?.parent ?? 0;
  if (!templates.has(at)) throw new Error(`process ${pid} came from no template of this host`);
  return at;
}

export function isAlive(pid: number): boolean {
  const state = look(String(pid))?.state;
  return state !== undefined && state !== 'Z';
}

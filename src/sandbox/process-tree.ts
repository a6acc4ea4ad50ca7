/** Ends a program with everything that it has started, also what has left its group or has lost its parent. */

import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { isInGroup } from './marked-group.ts';

/** In the environment of a program and so of all that it starts: this is how children without a parent are found. */
const MARK = 'CELLA_COMMAND';
/** Each round ends what the last one has left to start something; a fork that is faster than this is the machine's own limit to stop. */
const MOST_ROUNDS = 50;

export interface TreeMark {
  readonly env: Readonly<Record<string, string>>;
  /** In the name of the program's control group, where it has one. */
  readonly group: string;
}

/** `prefix`: by which all groups of one owner are known. */
export function newTreeMark(prefix = ''): TreeMark {
  const id = randomUUID();
  return { env: { [MARK]: id }, group: `${prefix}${id}` };
}

/** `ownGroup` is set where the program leads a process group of its own. */
export function killTree(pid: number, mark: TreeMark, { ownGroup }: { ownGroup: boolean }): void {
  if (ownGroup) send(-pid, 'SIGKILL');
  endAll(() => members(pid, mark, ownGroup));
}

/** Asks all of them to end. */
export function termTree(pid: number, mark: TreeMark): void {
  for (const member of members(pid, mark, true)) send(member, 'SIGTERM');
}

/** Ends all that has a variable of that value, or is in a group of that prefix, whoever has started it. */
export function killMarked(name: string, value: string): void {
  endAll(() =>
    processes()
      .filter(({ pid }) => hasMark(pid, `${name}=${value}`, value))
      .map(({ pid }) => pid),
  );
}

function endAll(find: () => number[]): void {
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const found = find();
    if (found.length === 0) return;
    for (const member of found) send(member, 'SIGKILL');
  }
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
}

function members(root: number, mark: TreeMark, ownGroup: boolean): number[] {
  const all = processes();
  const text = `${MARK}=${mark.env[MARK]}`;
  const found = new Set(
    all
      .filter(
        ({ pid, group, session }) =>
          pid === root || (ownGroup && (group === root || session === root)) || hasMark(pid, text, mark.group),
      )
      .map(({ pid }) => pid),
  );
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/** How many threads it has: the place of that among what follows the name. */
const THREADS = 17;

/** Without those that have ended and wait for their parent to notice. Elsewhere than on Linux there is nothing to read. */
function processes(): Stat[] {
  const list: Stat[] = [];
  for (const name of entries('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid <= 1 || pid === process.pid) continue;
    // The name of the program is in parentheses, and may itself hold some.
    const fields = read(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ') ?? [];
    const [state, parent, group, session] = fields;
    if (state === undefined || state === '') continue;
    // One whose first thread alone has ended looks the same as one that has, and goes on.
    if ('ZX'.includes(state) && Number(fields[THREADS]) <= 1) continue;
    list.push({ pid, parent: Number(parent), group: Number(group), session: Number(session) });
  }
  return list;
}

/** A process can change its variables, and not its group. */
function hasMark(pid: number, text: string, group: string): boolean {
  return read(`/proc/${pid}/environ`).split('\0').includes(text) || isInGroup(read(`/proc/${pid}/cgroup`), group);
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // Not Linux: the group is all that can be found.
    return [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // It has ended since, or belongs to someone else.
    return '';
  }
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended since, or belongs to someone else.
  }
}

/** Kills a program with everything it started, including processes that left its group or lost their parent.
 *
 * Children are found by a variable in their environment and, if this process may make cgroups, by the program's own
 * cgroup, which no process can leave.
 */

import { randomUUID } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { listProcesses, type ProcessStat } from '../lib/process-identity.ts';

/** In the environment of a program and so of all that it starts: this is how children without a parent are found. */
const TAG_VARIABLE = 'CELLA_COMMAND';
/** Each round ends what the last one has left to start something; a fork that is faster than this is the machine's own limit to stop. */
const MOST_ROUNDS = 50;

interface ProcessTag {
  readonly env: Readonly<Record<string, string>>;
  /** In the name of the program's control group, where it has one. */
  readonly group: string;
}

/** `prefix`: by which all groups of one owner are known. */
export function newProcessTag(prefix = ''): ProcessTag {
  const id = randomUUID();
  return { env: { [TAG_VARIABLE]: id }, group: `${prefix}${id}` };
}

/** `ownGroup` is set where the program leads a process group of its own. */
export function killTree(pid: number, mark: ProcessTag, { ownGroup }: { ownGroup: boolean }): void {
  if (ownGroup) sendSignal(-pid, 'SIGKILL');
  killAllFound(() => treeMembers(pid, mark, ownGroup));
}

/** Asks all of them to end. */
export function termTree(pid: number, mark: ProcessTag): void {
  for (const member of treeMembers(pid, mark, true)) sendSignal(member, 'SIGTERM');
}

/** Ends all that has a variable of that value, or is in a group of that prefix, whichever process started it. */
export function killTagged(name: string, value: string): void {
  killAllFound(() =>
    processes()
      .filter(({ pid }) => hasTag(pid, `${name}=${value}`, value))
      .map(({ pid }) => pid),
  );
}

function killAllFound(find: () => number[]): void {
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const found = find();
    if (found.length === 0) return;
    for (const member of found) sendSignal(member, 'SIGKILL');
  }
}

function treeMembers(root: number, mark: ProcessTag, ownGroup: boolean): number[] {
  const all = processes();
  const text = `${TAG_VARIABLE}=${mark.env[TAG_VARIABLE]}`;
  const found = new Set(
    all
      .filter(
        ({ pid, group, session }) =>
          pid === root || (ownGroup && (group === root || session === root)) || hasTag(pid, text, mark.group),
      )
      .map(({ pid }) => pid),
  );
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/** Other processes that run. Only on Linux; elsewhere the group is all that can be found. */
function processes(): ProcessStat[] {
  return listProcesses().filter(({ pid, hasEnded }) => !hasEnded && pid > 1 && pid !== process.pid);
}

/** A process can change its variables, and not its group. */
function hasTag(pid: number, text: string, group: string): boolean {
  return read(`/proc/${pid}/environ`).split('\0').includes(text) || isInGroup(read(`/proc/${pid}/cgroup`), group);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // It has ended since, or belongs to someone else.
    return '';
  }
}

function sendSignal(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended since, or belongs to someone else.
  }
}

/** Version 2 alone, beside older ones or by itself. */
const CGROUP_MOUNTS = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'];
/** What the name of every such group begins with. */
const GROUP_NAME = 'cella-local-';

export function canMakeGroups(): boolean {
  const own = ownGroup();
  if (own === undefined) return false;
  try {
    accessSync(own, constants.W_OK);
    return true;
  } catch {
    return false; // the system's own, which only root changes
  }
}

/**
 * Brings a program in that has just begun. It stands still meanwhile: the system may take many milliseconds, in which it
 * could start what would not be in the group. It is disposed of when all of it has ended.
 */
export function enterGroup(pid: number, mark: string): Disposable {
  const own = ownGroup();
  const group = own === undefined ? undefined : join(own, `${GROUP_NAME}${mark}`);
  if (group === undefined || !makeGroup(group)) return { [Symbol.dispose]: () => {} };
  let ended = false;
  stopOrContinue(pid, 'SIGSTOP');
  const entered = writeFile(join(group, 'cgroup.procs'), String(pid)).catch(() => {
    // The program has ended already, or may not be moved: what it starts is found by its variables, as far as it goes.
  });
  void entered.then(() => {
    if (ended) removeGroup(group);
    else stopOrContinue(pid, 'SIGCONT');
  });
  const dispose = () => {
    ended = true;
    removeGroup(group);
  };
  return { [Symbol.dispose]: dispose };
}

/** Removes the empty groups of processes that have ended. */
export function removeGroups(prefix: string): void {
  const own = ownGroup();
  if (own === undefined) return;
  for (const name of groupsIn(own)) if (name.startsWith(`${GROUP_NAME}${prefix}`)) removeGroup(join(own, name));
}

/** Whether a process is in the group with that mark. */
function isInGroup(groups: string, mark: string): boolean {
  return groups.includes(`${GROUP_NAME}${mark}`);
}

function ownGroup(): string | undefined {
  const mount = CGROUP_MOUNTS.find((path) => existsSync(join(path, 'cgroup.procs')));
  try {
    const path = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
    // One that begins above what can be seen from here has no name here.
    return mount === undefined || path === undefined || path.startsWith('/..') ? undefined : join(mount, path);
  } catch {
    return undefined; // no Linux
  }
}

function makeGroup(group: string): boolean {
  try {
    mkdirSync(group);
    return true;
  } catch {
    return false; // not allowed here
  }
}

function stopOrContinue(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

function removeGroup(group: string): void {
  try {
    rmdirSync(group);
  } catch {
    // A process in it is about to end; an empty group costs nothing.
  }
}

function groupsIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // nobody has made one where nothing can be seen
  }
}

/**
 * Kills a program and everything that it started, including processes that left its group or lost their parent.
 *
 * Finds the processes by a variable in their environment and, if this process may create cgroups, by the program's own cgroup,
 * which no process can leave.
 */

import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sendSignal } from '../lib/process-end.ts';
import { listProcesses, type ProcessStat } from '../lib/process-identity.ts';

/** Every process that the program starts inherits this variable, which finds orphans. */
const TAG_VARIABLE = 'CELLA_COMMAND';
/** Each round kills what the previous one missed. Only the machine's own limits stop a faster fork bomb. */
const MOST_ROUNDS = 50;

interface ProcessTag {
  readonly env: Readonly<Record<string, string>>;
  /** Part of the name of the program's cgroup, if it has one. */
  readonly group: string;
}

/** `prefix` identifies all groups of one owner. */
export function newProcessTag(prefix = ''): ProcessTag {
  const id = randomUUID();
  return { env: { [TAG_VARIABLE]: id }, group: `${prefix}${id}` };
}

/** Set `ownGroup` if the program leads its own process group. */
export function killTree(pid: number, tag: ProcessTag, { ownGroup }: { ownGroup: boolean }): void {
  if (ownGroup) sendSignal(-pid, 'SIGKILL');
  killAllFound(() => treeMembers(pid, tag, ownGroup));
}

/** Sends SIGTERM to all processes of the tree. */
export function termTree(pid: number, tag: ProcessTag): void {
  for (const member of treeMembers(pid, tag, true)) sendSignal(member, 'SIGTERM');
}

/** Kills every process that has this variable, or is in a group with this prefix, whichever process started it. */
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

function treeMembers(root: number, tag: ProcessTag, ownGroup: boolean): number[] {
  const all = processes();
  const text = `${TAG_VARIABLE}=${tag.env[TAG_VARIABLE]}`;
  const found = new Set(
    all
      .filter(
        ({ pid, group, session }) =>
          pid === root || (ownGroup && (group === root || session === root)) || hasTag(pid, text, tag.group),
      )
      .map(({ pid }) => pid),
  );
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid);
  }
  return [...found];
}

/** Other running processes. Only on Linux; elsewhere Cella can only signal the process group. */
function processes(): ProcessStat[] {
  return listProcesses().filter(({ pid, hasEnded }) => !hasEnded && pid > 1 && pid !== process.pid);
}

/** A process can change its variables, but not its cgroup. */
function hasTag(pid: number, text: string, group: string): boolean {
  return read(`/proc/${pid}/environ`).split('\0').includes(text) || isInGroup(read(`/proc/${pid}/cgroup`), group);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    // The process has ended, or belongs to another user.
    return '';
  }
}

/** Only cgroup v2, mounted alone or next to v1. */
const CGROUP_MOUNTS = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'];
/** The prefix of every such group's name. */
const GROUP_NAME = 'cella-local-';

/**
 * Moves a program that has just started into its cgroup. The program is stopped meanwhile: the move can take many milliseconds,
 * in which it could start processes outside the group. Dispose of the result when all of its processes have ended.
 */
export function enterGroup(pid: number, tag: string): Disposable {
  const own = ownGroup();
  const group = own === undefined ? undefined : join(own, `${GROUP_NAME}${tag}`);
  if (group === undefined || !makeGroup(group)) return { [Symbol.dispose]: () => {} };
  let ended = false;
  sendSignal(pid, 'SIGSTOP');
  const entered = writeFile(join(group, 'cgroup.procs'), String(pid)).catch(() => {
    // The program has ended, or may not be moved. Its processes are then found by their variables only.
  });
  void entered.then(() => {
    if (ended) removeGroup(group);
    else sendSignal(pid, 'SIGCONT');
  });
  const dispose = () => {
    ended = true;
    removeGroup(group);
  };
  return { [Symbol.dispose]: dispose };
}

/** Removes empty groups of processes that have ended. */
export function removeGroups(prefix: string): void {
  const own = ownGroup();
  if (own === undefined) return;
  for (const name of groupsIn(own)) if (name.startsWith(`${GROUP_NAME}${prefix}`)) removeGroup(join(own, name));
}

/** Whether a process is in the group with this tag. */
function isInGroup(groups: string, tag: string): boolean {
  return groups.includes(`${GROUP_NAME}${tag}`);
}

/** The cgroup of this process. */
export function ownGroup(): string | undefined {
  const mount = CGROUP_MOUNTS.find((path) => existsSync(join(path, 'cgroup.procs')));
  try {
    const path = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
    // A group above the visible root has no path here.
    return mount === undefined || path === undefined || path.startsWith('/..') ? undefined : join(mount, path);
  } catch {
    return undefined; // not Linux
  }
}

function makeGroup(group: string): boolean {
  try {
    mkdirSync(group);
    return true;
  } catch {
    return false; // not permitted
  }
}

function removeGroup(group: string): void {
  try {
    rmdirSync(group);
  } catch {
    // A process in it is about to end. An empty group costs nothing.
  }
}

function groupsIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // nothing is visible, so no groups were created
  }
}

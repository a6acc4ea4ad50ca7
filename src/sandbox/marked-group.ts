/**
 * A control group for one program, with a mark in its name: what the program starts is in it too, and cannot leave it,
 * whatever it does to its parents, its session and its variables. Only where this process may make groups: as root, or
 * in one that the system has given over to it.
 */

import { accessSync, constants, existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Version 2 alone, beside older ones or by itself. */
const MOUNTS = ['/sys/fs/cgroup/unified', '/sys/fs/cgroup'];
/** What the name of every such group begins with. */
export const GROUP_NAME = 'cella-local-';

export function canMakeGroups(): boolean {
  const own = ownGroup();
  if (own === undefined) return false;
  try {
    accessSync(own, constants.W_OK);
    return true;
  } catch {
    return false; // the system's own, which nobody but root changes
  }
}

/**
 * Brings a program in that has just begun. It stands still meanwhile: the system may take many milliseconds, in which it
 * could start what would not be in the group. It is disposed of when all of it has ended.
 */
export function enterGroup(pid: number, mark: string): Disposable {
  const own = ownGroup();
  const group = own === undefined ? undefined : join(own, `${GROUP_NAME}${mark}`);
  if (group === undefined || !make(group)) return { [Symbol.dispose]: () => {} };
  let ended = false;
  signal(pid, 'SIGSTOP');
  const entered = writeFile(join(group, 'cgroup.procs'), String(pid)).catch(() => {
    // The program has ended already, or may not be moved: what it starts is found by its variables, as far as it goes.
  });
  void entered.then(() => {
    if (ended) remove(group);
    else signal(pid, 'SIGCONT');
  });
  const dispose = () => {
    ended = true;
    remove(group);
  };
  return { [Symbol.dispose]: dispose };
}

/** Takes away those that a process which is gone has left, once nobody is in them. */
export function removeGroups(prefix: string): void {
  const own = ownGroup();
  if (own === undefined) return;
  for (const name of namesIn(own)) if (name.startsWith(`${GROUP_NAME}${prefix}`)) remove(join(own, name));
}

/** Whether a process is in the group with that mark. */
export function isInGroup(groups: string, mark: string): boolean {
  return groups.includes(`${GROUP_NAME}${mark}`);
}

function ownGroup(): string | undefined {
  const mount = MOUNTS.find((path) => existsSync(join(path, 'cgroup.procs')));
  try {
    const path = /^0::(\/.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1];
    // One that begins above what can be seen from here has no name here.
    return mount === undefined || path === undefined || path.startsWith('/..') ? undefined : join(mount, path);
  } catch {
    return undefined; // no Linux
  }
}

function make(group: string): boolean {
  try {
    mkdirSync(group);
    return true;
  } catch {
    return false; // not allowed here
  }
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

function remove(group: string): void {
  try {
    rmdirSync(group);
  } catch {
    // Somebody in it is about to end: an empty group costs nothing.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // nobody has made one where nothing can be seen
  }
}

/**
 * A control group for one program, with a mark in its name: what the program starts is in it too, and cannot leave it,
 * whatever it does to its parents, its session and its variables. Only where this process may make groups: as root, or
 * in one that the system has given over to it.
 */

import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
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

/** Brings a program in that has just begun. It is disposed of when all of it has ended. */
export function enterGroup(pid: number, mark: string): Disposable {
  const own = ownGroup();
  const group = own === undefined ? undefined : join(own, `${GROUP_NAME}${mark}`);
  try {
    if (group !== undefined) {
      mkdirSync(group);
      writeFileSync(join(group, 'cgroup.procs'), String(pid));
    }
  } catch {
    // Not allowed here, or the program has ended already: what it starts is found by its variables, as far as it goes.
  }
  return { [Symbol.dispose]: () => remove(group) };
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

function remove(group: string | undefined): void {
  try {
    if (group !== undefined) rmdirSync(group);
  } catch {
    // It was never made, or somebody in it is about to end: an empty group costs nothing.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // nobody has made one where nothing can be seen
  }
}

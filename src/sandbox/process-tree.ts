/**
 * Kills a program and everything that it started, including processes that left its group or lost their parent.
 *
 * Finds the processes by a variable in their environment and, if this process may create cgroups, by the program's own cgroup,
 * which no process can leave.
 */

import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { inSlices } from '../lib/event-loop.ts';
import { sendSignal } from '../lib/process-end.ts';
import { type ProcessStat, readProcessStat } from '../lib/process-identity.ts';

/** Every process that the program starts inherits this variable, which finds orphans. */
const TAG_VARIABLE = 'CELLA_COMMAND';
/** Each round kills what the previous one missed. Only the machine's own limits stop a faster fork bomb. */
const MOST_ROUNDS = 50;
/**
 * The most rounds in a row that find nothing but may have missed a process. A process that ends during a round makes the round
 * unsure, and on a busy machine this happens all the time.
 */
const MOST_UNSURE_ROUNDS = 10;

/** The pause between two rounds, in which killed processes end. */
const ROUND_MS = 5;

interface ProcessTag {
  readonly env: Readonly<Record<string, string>>;
  /** Part of the name of the program's cgroup, if it has one. */
  readonly group: string;
  /** In the unit of `ProcessStat.started`: processes that are older are not the program's. */
  readonly madeAt: number;
}

/** Call it before the program starts. `prefix` identifies all groups of one owner. */
export function newProcessTag(prefix = ''): ProcessTag {
  const id = randomUUID();
  return { env: { [TAG_VARIABLE]: id }, group: `${prefix}${id}`, madeAt: ticksNow() };
}

const TICK_MS = 10;

/** The time now in the unit of `ProcessStat.started`, or a little before. */
function ticksNow(): number {
  return Number(readProcessStat(process.pid)?.started ?? 0) + Math.floor(performance.now() / TICK_MS);
}

/** Set `ownGroup` if the program leads its own process group, which is killed at once. */
export async function killTree(pid: number, tag: ProcessTag, { ownGroup }: { ownGroup: boolean }): Promise<void> {
  if (ownGroup) sendSignal(-pid, 'SIGKILL');
  await killAllFound(tag.madeAt, (search) => treeMembers(search, pid, tag, ownGroup));
}

/** Sends SIGTERM to all processes of the tree. */
export async function termTree(pid: number, tag: ProcessTag): Promise<void> {
  for await (const member of treeMembers(new ProcessSearch(tag.madeAt), pid, tag, true))
    signalIfSame(member, 'SIGTERM');
}

/** Kills every process that has this variable, or is in a group with this prefix, whichever process started it. */
export async function killTagged(name: string, value: string): Promise<void> {
  await killAllFound(0, async function* (search) {
    for await (const one of search.running()) if (await search.hasTag(one, `${name}=${value}`, value)) yield one;
  });
}

/** Searches again until nothing is found, and nothing can have been missed. */
async function killAllFound(
  madeAt: number,
  find: (search: ProcessSearch) => AsyncIterable<ProcessStat>,
): Promise<void> {
  const search = new ProcessSearch(madeAt);
  for (let [round, unsure] = [0, 0]; round < MOST_ROUNDS && unsure < MOST_UNSURE_ROUNDS; round++) {
    let count = 0;
    search.missed = false;
    for await (const member of find(search)) {
      signalIfSame(member, 'SIGKILL');
      count++;
    }
    if (count === 0 && !search.missed) return;
    unsure = count === 0 ? unsure + 1 : 0;
    await delay(ROUND_MS);
  }
}

/** The process may have ended since it was found, and another may have its number. */
function signalIfSame({ pid, started }: ProcessStat, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (readProcessStat(pid)?.started === started) sendSignal(pid, signal);
}

/** Yields each as soon as it is found. A process comes after its child processes, whose parent is known by then. */
async function* treeMembers(
  search: ProcessSearch,
  root: number,
  tag: ProcessTag,
  ownGroup: boolean,
): AsyncGenerator<ProcessStat> {
  const text = `${TAG_VARIABLE}=${tag.env[TAG_VARIABLE]}`;
  const found = new Set<number>();
  const others: ProcessStat[] = [];
  for await (const one of search.running()) {
    const { pid, group, session } = one;
    const isOwn = pid === root || (ownGroup && (group === root || session === root));
    if (!isOwn && !(await search.hasTag(one, text, tag.group))) others.push(one);
    else {
      found.add(pid);
      yield one;
    }
  }
  for (let before = -1; before !== found.size; ) {
    before = found.size;
    for (const one of others) {
      if (!found.has(one.parent) || found.has(one.pid)) continue;
      found.add(one.pid);
      yield one;
    }
  }
}

/** Only on Linux; elsewhere Cella can only signal the process group. */
class ProcessSearch {
  readonly #madeAt: number;
  /** Processes that had ended in an earlier round. */
  readonly #ended = new Set<string>();
  /** Whether a process has ended since the last round: it may have started another one that was not listed. */
  missed = false;

  constructor(madeAt: number) {
    this.#madeAt = madeAt;
  }

  /**
   * Other running processes, except older ones. The newest come first, at once: one that forks and exits is found before it
   * does so again.
   */
  async *running(): AsyncGenerator<ProcessStat> {
    const pids = processIds().filter((pid) => pid > 1 && pid !== process.pid);
    for await (const pid of inSlices(pids.toReversed())) {
      const stat = readProcessStat(pid);
      if (!stat) this.missed = true;
      else if (Number(stat.started) < this.#madeAt) continue;
      else if (stat.hasEnded) this.#noteEnded(stat);
      else yield stat;
    }
  }

  /** A process can change its variables, but not its cgroup. */
  async hasTag(one: ProcessStat, text: string, group: string): Promise<boolean> {
    if ((await read(`/proc/${one.pid}/environ`)).split('\0').includes(text)) return true;
    if (isInGroup(await read(`/proc/${one.pid}/cgroup`), group)) return true;
    const now = readProcessStat(one.pid);
    if (!now || now.hasEnded || now.started !== one.started) this.#noteEnded(one);
    return false;
  }

  #noteEnded({ pid, started }: ProcessStat): void {
    const process = `${pid} ${started}`;
    if (this.#ended.has(process)) return;
    this.#ended.add(process);
    this.missed = true;
  }
}

function processIds(): number[] {
  try {
    return readdirSync('/proc').map(Number);
  } catch {
    return []; // no /proc on this system
  }
}

/** Asynchronous: the system lets a reader wait for a process that waits for its disk. */
async function read(path: string): Promise<string> {
  // The process may have ended, or may belong to another user.
  return await readFile(path, 'latin1').catch(() => '');
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

/** Reads processes from /proc: trees, whether they are idle, and their memory in megabytes of 2^20 bytes. Linux only. */

import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

export interface Process {
  readonly pid: number;
  readonly parent: number;
  /** User and system time together, in clock ticks. */
  readonly cpuTicks: number;
}

const REST_CHECK_MS = 20;
const REST_CHECKS = 3;
const REST_BOUND_MS = 10_000;

/** Every process below `root`, without `root`. */
export function descendants(root: number): Process[] {
  const children = Map.groupBy(allProcesses(), (process) => process.parent);
  const found = [...(children.get(root) ?? [])];
  for (const process of found) found.push(...(children.get(process.pid) ?? []));
  return found;
}

export function tree(root: number): number[] {
  return [root, ...descendants(root).map((process) => process.pid)];
}

export function parentOf(pid: number): number {
  const found = readProcess(pid);
  if (found === undefined) throw new Error(`Process ${pid} has ended.`);
  return found.parent;
}

/** Waits until no process below this one starts, ends or computes, so that one measurement does not affect the next. */
export async function atRest(): Promise<void> {
  const end = performance.now() + REST_BOUND_MS;
  let before = activity();
  for (let calm = 0; calm < REST_CHECKS; ) {
    await pause(REST_CHECK_MS);
    const after = activity();
    calm = after === before ? calm + 1 : 0;
    before = after;
    if (performance.now() > end) throw new Error(`Processes below ${process.pid} did not come to rest: ${after}.`);
  }
}

function activity(): string {
  return descendants(process.pid)
    .map(({ pid, cpuTicks }) => `${pid}:${cpuTicks}`)
    .join(' ');
}

function allProcesses(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? []);
}

function readProcess(pid: number): Process | undefined {
  const stat = readIfAlive(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The name in parentheses can contain spaces and parentheses; the numbers follow the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { pid, parent: Number(fields[1]), cpuTicks: Number(fields[11]) + Number(fields[12]) };
}

function readIfAlive(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
}

export interface Memory {
  /** Private pages: the memory that would be free without these processes. */
  readonly privateMb: number;
  /** Private pages, and a proportional share of each shared page. In the sum over all processes, each page counts once. */
  readonly pssMb: number;
}

export function memoryOf(pids: readonly number[]): Memory {
  let privateKb = 0;
  let pssKb = 0;
  for (const pid of pids) {
    const rollup = readRollup(pid);
    privateKb += rollupField(rollup, 'Private_Clean') + rollupField(rollup, 'Private_Dirty');
    pssKb += rollupField(rollup, 'Pss');
  }
  return { privateMb: privateKb / 1024, pssMb: pssKb / 1024 };
}

function readRollup(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  } catch (cause) {
    throw new Error(
      `The memory of process ${pid} cannot be read. Only root may look into a sandbox: run the benchmark as root.`,
      { cause },
    );
  }
}

function rollupField(rollup: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(rollup);
  if (match === null) throw new Error(`/proc/PID/smaps_rollup has no ${name} on this kernel.`);
  return Number(match[1]);
}

/**
 * The runner's own process: takes stdin and stdout for the protocol, so that libraries print to stderr and read nothing; reads
 * its variables; and kills the processes that the agent started.
 */

import { Console } from 'node:console';
import { fstatSync, readFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { sendSignal } from '../lib/process-end.ts';
import { listProcesses } from '../lib/process-identity.ts';

export interface RunnerStreams {
  readonly input: Readable;
  readonly output: Writable;
}

/** Called before anything is loaded that could use the streams. */
export function claimStreams(): RunnerStreams {
  const input: Readable = isPipe(0) ? new Socket({ fd: 0, readable: true, writable: false }) : process.stdin;
  // Node's own stdout would block the whole process while nothing reads it.
  const output: Writable = isPipe(1) ? new Socket({ fd: 1, readable: false, writable: true }) : process.stdout;
  const nothing = new PassThrough().end();
  // An import of `node:process` reads both; without this, Node would open them again and fail.
  Object.defineProperty(process, 'stdin', { get: () => nothing });
  Object.defineProperty(process, 'stdout', { get: () => process.stderr });
  globalThis.console = new Console(process.stderr, process.stderr);
  return { input, output };
}

function isPipe(fd: number): boolean {
  const facts = fstatSync(fd);
  return facts.isFIFO() || facts.isSocket();
}

export function ownVariables(): Record<string, string> {
  const variables: Record<string, string> = {};
  // biome-ignore lint/style/noProcessEnv: this is the one place where the runner reads them.
  for (const [name, value] of Object.entries(process.env)) if (value !== undefined) variables[name] = value;
  return variables;
}

/**
 * The descendants of `root`, and the orphans in its process group or control group, without the spared ones and their
 * descendants. What an agent has started must not outlive its runner. Unlike the search of process-tree.ts, this one looks for
 * no process tags, and `root` may be a process that adopts orphans.
 */
function treeBelow(root: number, spared: ReadonlySet<number> = new Set()): number[] {
  const all = listProcesses().filter(({ pid, hasEnded }) => !hasEnded && !spared.has(pid));
  const leads = all.some(({ pid, group }) => pid === root && group === root);
  const control = ownControlGroup(root);
  const found = new Set<number>([root]);
  for (const { pid } of all) if (control !== undefined && controlGroupOf(pid) === control) found.add(pid);
  for (let before = 0; before < found.size; ) {
    before = found.size;
    for (const { pid, parent, group } of all) {
      if (found.has(parent) || (leads && group === root)) found.add(pid);
    }
  }
  found.delete(root);
  return [...found];
}

/** The control group that a local environment made for this process alone. Processes cannot leave it. */
function ownControlGroup(root: number): string | undefined {
  const group = controlGroupOf(root);
  return group?.includes('/cella-local-') ? group : undefined;
}

function controlGroupOf(pid: number): string | undefined {
  try {
    return /^0::.*$/m.exec(readFileSync(`/proc/${pid}/cgroup`, 'latin1'))?.[0];
  } catch {
    return undefined; // it has ended, or this is not Linux
  }
}

/** Rounds and pause of the search, for processes that fork while it runs. */
const MOST_ROUNDS = 200;
const ROUND_MS = 5;

/**
 * Kills all processes below `root`, which adopts orphans, except this one and the spared. False if new ones keep
 * appearing.
 */
export async function killSubtree(root: number, spared: ReadonlySet<number>): Promise<boolean> {
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    const left = treeBelow(root, spared).filter((pid) => pid !== process.pid);
    if (left.length === 0) return true;
    for (const pid of left) sendSignal(pid, 'SIGKILL');
    await delay(ROUND_MS);
  }
  return false;
}

/** Synchronous, so that an exit handler can call it. */
export function killDescendants(root = process.pid): void {
  for (const pid of treeBelow(root)) sendSignal(pid, 'SIGKILL');
}

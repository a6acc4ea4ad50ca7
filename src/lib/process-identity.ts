/**
 * Reads process states from the system, and identifies processes. An identity is one word that fits into a file name. It
 * differs from the identity of every other process that has, had or will have the same pid.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { systemCode } from './values.ts';

export interface ProcessStat {
  readonly pid: number;
  /** One letter: `Z` is a zombie, `T` a stopped process. */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** The process has ended and waits to be reaped. A zombie whose other threads still run has not ended. */
  readonly hasEnded: boolean;
  /** In clock ticks since boot. */
  readonly started: string;
  /** The number of the processor that it ran on last. */
  readonly processor: number;
}

const [THREADS, STARTED, PROCESSOR] = [17, 19, 36];

/** Reads the text of /proc/PID/stat; undefined if it is cut off. */
export function parseProcessStat(text: string): ProcessStat | undefined {
  // The program name may contain spaces and parentheses; the fields after the last parenthesis do not.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', parent, group, session] = fields;
  const started = fields[STARTED];
  const processor = fields[PROCESSOR];
  if (started === undefined || processor === undefined) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    state,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    hasEnded: 'ZX'.includes(state) && Number(fields[THREADS]) <= 1,
    started,
    processor: Number(processor),
  };
}

/** Undefined if there is no such process, or the system has no /proc. */
export function readProcessStat(pid: number): ProcessStat | undefined {
  try {
    return parseProcessStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return undefined;
  }
}

/** All processes, including zombies. Empty if the system has no /proc. */
export function listProcesses(): ProcessStat[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  return names.flatMap((name) => (/^\d+$/.test(name) ? (readProcessStat(Number(name)) ?? []) : []));
}

/** Whether a process of any user has this pid. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === 'EPERM'; // another user's
  }
}

/** Whether a signal, a debugger or a cgroup freezer has stopped the process. */
export function isStopped(pid: number): boolean {
  const state = readProcessStat(pid)?.state;
  return state === 'T' || state === 't' || (state === 'D' && isFrozen(pid));
}

/** A process frozen by its cgroup has the same state letter as one that waits for a disk. */
function isFrozen(pid: number): boolean {
  try {
    return /refrigerator|freez/.test(readFileSync(`/proc/${pid}/wchan`, 'latin1'));
  } catch {
    return false; // unknown on this system
  }
}

/** `PID-START-BOOT-NAMESPACE`, then a suffix after `-` or `.` that distinguishes uses within one process. */
export type ProcessIdentity = string;

/** Pids can be compared only within one boot and one pid namespace (two containers have two). */
interface PidNamespace {
  readonly boot: string;
  readonly namespace: string;
}

const IDENTITY = /^(\d+)-(\d+)-([0-9a-f]+)-(\d+)(?:[-.][0-9a-f]+)?$/;

export function ownProcess(): ProcessIdentity {
  const own = ownPidNamespace();
  const started = own ? (startOf(process.pid) ?? '0') : '0';
  return [process.pid, started, own?.boot ?? '0', own?.namespace ?? '0'].join('-');
}

/** An identity for this process, with a suffix unique to this call. */
export function newProcessIdentity(): ProcessIdentity {
  return `${ownProcess()}-${randomBytes(6).toString('hex')}`;
}

/** `unknown`: the process belongs to another boot or pid namespace, or this system does not provide the state. */
export type ProcessState = 'alive' | 'dead' | 'unknown';

export function processState(identity: ProcessIdentity): ProcessState {
  const [, pid, started, boot, namespace] = IDENTITY.exec(identity) ?? [];
  const own = ownPidNamespace();
  if (!own || boot !== own.boot || namespace !== own.namespace) return 'unknown';
  return startOf(Number(pid)) === started ? 'alive' : 'dead';
}

let knownBootId: string | undefined;

/** Empty if this is not Linux. */
export function bootId(): string {
  try {
    knownBootId ??= readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    knownBootId = '';
  }
  return knownBootId;
}

let pidNamespace: PidNamespace | 'none' | undefined;

function ownPidNamespace(): PidNamespace | undefined {
  pidNamespace ??= readPidNamespace() ?? 'none';
  return pidNamespace === 'none' ? undefined : pidNamespace;
}

function readPidNamespace(): PidNamespace | undefined {
  try {
    const boot = bootId().replaceAll('-', '');
    const namespace = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
    const readable = /^[0-9a-f]+$/.test(boot) && namespace !== '' && startOf(process.pid) !== undefined;
    return readable ? { boot, namespace } : undefined;
  } catch {
    return undefined; // not Linux
  }
}

/** When the process started; undefined if it is not running. */
function startOf(pid: number): string | undefined {
  const stat = readProcessStat(pid);
  return stat && !'ZX'.includes(stat.state) ? stat.started : undefined;
}

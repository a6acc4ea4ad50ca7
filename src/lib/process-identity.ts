/**
 * What the system says about processes, and identities for them. An identity is one word that fits into a file name. It
 * differs from that of any other process that has, had or will have the same pid.
 */

import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { systemCode } from './errno.ts';

export interface ProcessStat {
  readonly pid: number;
  /** One letter: `Z` is a zombie, `T` a stopped process. */
  readonly state: string;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** It waits for its parent to notice. A process whose main thread alone has ended is a zombie, too, but still runs. */
  readonly hasEnded: boolean;
  /** In clock ticks after the boot. */
  readonly started: string;
}

const [THREADS, STARTED] = [17, 19];

/** Reads the text of /proc/PID/stat; undefined if it is cut off. */
export function parseProcessStat(text: string): ProcessStat | undefined {
  // The name of the program may hold spaces and parentheses; what follows the last one does not.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', parent, group, session] = fields;
  const started = fields[STARTED];
  if (started === undefined) return undefined;
  return {
    pid: Number.parseInt(text, 10),
    state,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    hasEnded: 'ZX'.includes(state) && Number(fields[THREADS]) <= 1,
    started,
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

/** All processes, with those that have ended and wait for their parent. None if the system has no /proc. */
export function listProcesses(): ProcessStat[] {
  let names: string[];
  try {
    names = readdirSync('/proc');
  } catch {
    return [];
  }
  return names.flatMap((name) => (/^\d+$/.test(name) ? (readProcessStat(Number(name)) ?? []) : []));
}

/** Whether a process has this pid, whoever it belongs to. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === 'EPERM'; // another user's
  }
}

/** Whether a signal or a debugger has stopped a process, or a freezer holds it. */
export function isStopped(pid: number): boolean {
  const state = readProcessStat(pid)?.state;
  return state === 'T' || state === 't' || (state === 'D' && isFrozen(pid));
}

/** A cgroup can freeze its processes. They are then in the same state as those that wait for a disk. */
function isFrozen(pid: number): boolean {
  try {
    return /refrigerator|freez/.test(readFileSync(`/proc/${pid}/wchan`, 'latin1'));
  } catch {
    return false; // the system does not tell
  }
}

/** `PID-START-BOOT-NAMESPACE`, and after `-` or `.` what tells the users of one process apart. */
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

/** This process, with a suffix that no other call gives. */
export function newProcessIdentity(): ProcessIdentity {
  return `${ownProcess()}-${randomBytes(6).toString('hex')}`;
}

/** `unknown`: it runs, or ran, where this process cannot see it, or this system does not tell. */
export type ProcessState = 'alive' | 'dead' | 'unknown';

export function processState(identity: ProcessIdentity): ProcessState {
  const [, pid, started, boot, namespace] = IDENTITY.exec(identity) ?? [];
  const own = ownPidNamespace();
  if (!own || boot !== own.boot || namespace !== own.namespace) return 'unknown';
  return startOf(Number(pid)) === started ? 'alive' : 'dead';
}

let pidNamespace: PidNamespace | 'none' | undefined;

function ownPidNamespace(): PidNamespace | undefined {
  pidNamespace ??= readPidNamespace() ?? 'none';
  return pidNamespace === 'none' ? undefined : pidNamespace;
}

function readPidNamespace(): PidNamespace | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').replaceAll('-', '').trim();
    const namespace = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
    const readable = /^[0-9a-f]+$/.test(boot) && namespace !== '' && startOf(process.pid) !== undefined;
    return readable ? { boot, namespace } : undefined;
  } catch {
    return undefined; // not Linux
  }
}

/** When it started; undefined if no such process runs. */
function startOf(pid: number): string | undefined {
  const stat = readProcessStat(pid);
  return stat && !'ZX'.includes(stat.state) ? stat.started : undefined;
}

/**
 * The identity of a process as one word that fits into a file name. It differs from any other process that has, had or
 * will have its pid, and from other holders in the same process.
 */

import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

export type Holder = string;

/** Pids say something only of processes that share a boot and a pid namespace (two containers do not). */
interface PidNamespace {
  readonly boot: string;
  readonly namespace: string;
}

const pattern = /^(\d+)-(\d+)-([0-9a-f]+)-(\d+)(?:[-.][0-9a-f]+)?$/;

/** This process. What follows it, after `-` or `.`, tells its holders apart. */
export function ownProcess(): Holder {
  const place = ownPlace();
  const started = place ? (startOf(process.pid) ?? '0') : '0';
  return [process.pid, started, place?.boot ?? '0', place?.namespace ?? '0'].join('-');
}

export function newHolder(): Holder {
  return `${ownProcess()}-${randomBytes(6).toString('hex')}`;
}

/** `unseen`: it runs, or ran, where this process cannot see it, or this system does not tell. */
export type Sight = 'alive' | 'dead' | 'unseen';

export function look(holder: Holder): Sight {
  const [, pid, started, boot, namespace] = pattern.exec(holder) ?? [];
  const place = ownPlace();
  if (!place || boot !== place.boot || namespace !== place.namespace) return 'unseen';
  return startOf(Number(pid)) === started ? 'alive' : 'dead';
}

let place: PidNamespace | 'none' | undefined;

function ownPlace(): PidNamespace | undefined {
  place ??= readPlace() ?? 'none';
  return place === 'none' ? undefined : place;
}

function readPlace(): PidNamespace | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').replaceAll('-', '').trim();
    const namespace = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
    const readable = /^[0-9a-f]+$/.test(boot) && namespace !== '' && startOf(process.pid) !== undefined;
    return readable ? { boot, namespace } : undefined;
  } catch {
    return undefined; // no Linux
  }
}

/** In clock ticks after the boot; undefined where no such process runs. A zombie has ended. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name may hold blanks and brackets; what follows the last one does not.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

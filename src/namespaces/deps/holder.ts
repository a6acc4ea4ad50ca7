/** Who builds in a folder, as part of its name: a process, told apart from any other that has, had or will have its pid. */

import { readFileSync, readlinkSync } from 'node:fs';

const pattern = /^(\d+)-(\d+)-([0-9a-f]+)-(\d+)(?:\.|$)/;

let own: string | undefined;

export function ownHolder(): string {
  own ??= [process.pid, startOf(process.pid) ?? '0', ...place()].join('-');
  return own;
}

/** `unseen`: it runs, or ran, in another container, or this system does not tell. */
export function lookAt(name: string): 'alive' | 'dead' | 'unseen' {
  const [, pid, started, boot, namespace] = pattern.exec(name) ?? [];
  const [ownBoot, ownNamespace] = place();
  if (ownBoot === '0' || boot !== ownBoot || namespace !== ownNamespace) return 'unseen';
  return startOf(Number(pid)) === started ? 'alive' : 'dead';
}

let known: readonly [boot: string, namespace: string] | undefined;

/** Pids say something only of processes that share a boot and a pid namespace. */
function place(): readonly [boot: string, namespace: string] {
  known ??= readPlace();
  return known;
}

function readPlace(): readonly [boot: string, namespace: string] {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').replaceAll('-', '').trim();
    return [boot, readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')];
  } catch {
    return ['0', '0']; // no Linux
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

/** Memory of processes from /proc/PID/smaps_rollup, in megabytes of 2^20 bytes. */

import { readFileSync } from 'node:fs';

export interface Memory {
  /** Pages that no other process has: what would be free without these processes. */
  readonly privateMb: number;
  /** Private pages, and of each shared page this process's part. Over all processes that share, each page counts once. */
  readonly pssMb: number;
}

export function memoryOf(pids: readonly number[]): Memory {
  let privateKb = 0;
  let pssKb = 0;
  for (const pid of pids) {
    const rollup = read(pid);
    privateKb += field(rollup, 'Private_Clean') + field(rollup, 'Private_Dirty');
    pssKb += field(rollup, 'Pss');
  }
  return { privateMb: privateKb / 1024, pssMb: pssKb / 1024 };
}

function read(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  } catch (cause) {
    throw new Error(
      `The memory of process ${pid} cannot be read. Only root may look into a sandbox: run the benchmark as root.`,
      { cause },
    );
  }
}

function field(rollup: string, name: string): number {
  const match = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(rollup);
  if (match === null) throw new Error(`/proc/PID/smaps_rollup has no ${name} on this kernel.`);
  return Number(match[1]);
}

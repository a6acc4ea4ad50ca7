/** A disk in memory for the folders of the tests: they make and remove files all the time, and none of them is kept. */

import { spawnSync } from 'node:child_process';
import { freemem } from 'node:os';
import { findProgram, isRoot } from './requirements.mjs';

/** With less than this there is no room beside the tests themselves. */
const ENOUGH_BYTES = 8 * 2 ** 30;
/** In a namespace of its own, so that it is gone with the last process of the command, however that ends. */
const MOUNTED = 'mount -t tmpfs -o mode=1777 tmpfs "$0" && exec "$@"';

/** The command with such a disk on the folder; as it is where there can be none. */
export function withMemoryDisk(folder, command, args) {
  const unshare = findProgram('unshare');
  if (!isRoot || !unshare || available() < ENOUGH_BYTES) return { command, args };
  const around = ['--mount', 'sh', '-c', MOUNTED, folder];
  if (spawnSync(unshare, [...around, 'true']).status !== 0) return { command, args };
  return { command: unshare, args: [...around, command, ...args] };
}

/** Also where a control group gives this process less than the machine has. */
const available = () => Math.min(freemem(), process.availableMemory?.() ?? 0);

/** What a crash can leave on a Linux host: dumps of memory, wherever the system is told to put them, and Node's own reports. */

import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** Node's, V8's and Bun's own. */
const REPORT =
  /^report\.\d+\..*\.json$|\.heapsnapshot$|^Heap\.|\.heapprofile$|^isolate-.*\.log$|^crash-|\.core$|^core(\.\d+)?$/;
/** Where programs that take dumps from the kernel keep them. */
const DUMP_FOLDERS = ['/var/lib/systemd/coredump', '/var/crash', '/var/spool/abrt', '/var/lib/apport/coredump'];

export const corePattern = (): string => readFileSync('/proc/sys/kernel/core_pattern', 'utf8').trim();

/** Dumps below these folders. */
export function dumpsIn(folders: readonly string[]): string[] {
  return folders.flatMap((folder) => filesIn(folder, true)).filter(isDump);
}

/** Dumps of the whole system that have come since: where this process works, in the scratch folder, and where the system keeps them. */
export function dumpsSince(time: number): string[] {
  const pattern = corePattern();
  const places = pattern.startsWith('/') ? [dirname(pattern)] : [];
  const files = [process.cwd(), tmpdir(), '/', ...places, ...DUMP_FOLDERS].flatMap((folder) => filesIn(folder, false));
  return files.filter((path) => changedAt(path) >= time).filter(isDump);
}

function isDump(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return REPORT.test(name) || isCore(path) || DUMP_FOLDERS.some((folder) => path.startsWith(`${folder}/`));
}

/** Whatever it is called. */
function isCore(path: string): boolean {
  const head = Buffer.alloc(18);
  try {
    const handle = openSync(path, 'r');
    readSync(handle, head, 0, head.length, 0);
    closeSync(handle);
  } catch {
    return false; // it went away meanwhile
  }
  return head.subarray(0, 4).equals(Buffer.from('\x7fELF', 'latin1')) && head.readUInt16LE(16) === 4;
}

function filesIn(folder: string, recursive: boolean): string[] {
  try {
    const entries = readdirSync(folder, { recursive, withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  } catch {
    return []; // there is none, or it is nobody's business
  }
}

function changedAt(path: string): number {
  try {
    return statSync(path).mtimeMs;
  } catch {
    return 0; // it went away meanwhile
  }
}

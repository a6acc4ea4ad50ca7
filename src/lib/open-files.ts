/** How many files this process and those that it starts may have open. */

import { readFileSync } from 'node:fs';

/** A server with a few kernels and clients. */
const FILES_NEEDED = 1024;

/** What to do about a limit that is too low for a server. */
export function openFilesWarning(limit = openFilesLimit()): string | undefined {
  if (limit >= FILES_NEEDED) return undefined;
  return `Only ${limit} files may be open here, too few for kernels. Raise the limit (ulimit -n ${FILES_NEEDED}) and start the server again.`;
}

/** Node raises the soft limit to the hard one by itself, for its children too. */
function openFilesLimit(): number {
  try {
    const [, hard = ''] = /^Max open files\s+\w+\s+(\w+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
  } catch {
    return Number.POSITIVE_INFINITY; // the system does not tell
  }
}

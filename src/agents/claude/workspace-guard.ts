/**
 * Whether the files that a tool names are in the workspace. The program has a check of its own, but takes the folders for it
 * from the conversation. Kernel code can write conversations, and so pretend that the turn works in another folder.
 */

import { realpath } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve, sep } from 'node:path';

/** Paths as the program sees them. */
export interface GuardedFolders {
  readonly workspace: string;
  /** Also read: the program's own files, such as long outputs of tools and the profile's skills. */
  readonly readable: readonly string[];
}

/** The fields with a path. A missing path means the current folder. */
const PATH_FIELDS: Readonly<Record<string, readonly string[]>> = {
  Read: ['file_path'],
  Write: ['file_path'],
  Edit: ['file_path'],
  MultiEdit: ['file_path'],
  NotebookEdit: ['notebook_path'],
  Glob: ['path'],
  Grep: ['path'],
};
const READERS = new Set(['Read', 'Glob', 'Grep']);

interface GuardedCall {
  readonly tool: string;
  readonly input: Readonly<Record<string, unknown>>;
  /** The current folder of the program. */
  readonly cwd: string;
}

/** Also true for a tool that names no file. A path that the program could read in another way counts as outside. */
export async function staysInside({ tool, input, cwd }: GuardedCall, folders: GuardedFolders): Promise<boolean> {
  const fields = PATH_FIELDS[tool];
  if (!fields) return true;
  const roots = [folders.workspace, ...(READERS.has(tool) ? folders.readable : [])];
  // A pattern can name a folder of its own.
  if (tool === 'Glob' && leadsAway(input.pattern)) return false;
  for (const field of fields) {
    const path = input[field] ?? cwd;
    if (typeof path !== 'string' || !isPlain(path)) return false;
    if (!(await isBelow(resolve(cwd, path), roots))) return false;
  }
  return true;
}

function leadsAway(pattern: unknown): boolean {
  return typeof pattern !== 'string' || !isPlain(pattern) || isAbsolute(pattern) || pattern.split('/').includes('..');
}

/** The program expands `~` to a home folder, and removes blanks around a path. */
function isPlain(path: string): boolean {
  return path === path.trim() && !path.startsWith('~') && !/\p{Cc}/u.test(path);
}

async function isBelow(path: string, roots: readonly string[]): Promise<boolean> {
  const real = await realpathOfExisting(path);
  const realRoots = await Promise.all(roots.map(realpathOfExisting));
  return realRoots.some((root) => real === root || real.startsWith(`${root}${sep}`));
}

/** A file that does not exist yet is where its folder is. */
async function realpathOfExisting(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    const folder = dirname(path);
    return folder === path ? path : join(await realpathOfExisting(folder), path.slice(folder.length));
  }
}

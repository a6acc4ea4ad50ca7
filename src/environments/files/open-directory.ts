/**
 * A directory held open, so that operations stay in it even if code renames or replaces it.
 *
 * Linux gives every open directory a path, `/proc/self/fd/N`, that leads to the directory itself.
 */

import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readlink } from 'node:fs/promises';
import { systemCode } from '../../lib/values.ts';
import { folderIdOfStats, isSameFolder } from '../../sandbox/named-folders.ts';
import { errorOf, folderReplaced } from './file-paths.ts';
import type { FilesRoot } from './session-files.ts';

/** Opens anything without needing read permission. Node has no constant for O_PATH. */
export const O_PATH = 0o10000000;
const DIRECTORY_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const DIRECTORY_PATH_FLAGS = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const DIRECTORY_MODE = 0o755;
const OWNER_BITS = 0o700;

export class OpenDirectory implements AsyncDisposable {
  readonly #handle: FileHandle;
  #owner: Promise<Stats> | undefined;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Opens a path of the host without links. If the path has a link now, or leads to another folder, code has changed it. */
  static async root({ path, id }: Pick<FilesRoot, 'path' | 'id'>): Promise<OpenDirectory> {
    const handle = await open(path, DIRECTORY_PATH_FLAGS).catch((error) => {
      throw isLink(error) ? folderReplaced(path, error) : error;
    });
    const held = new OpenDirectory(handle);
    try {
      const real = await held.realPath();
      if (real !== latin1(path)) throw folderReplaced(path);
      if (id && !isSameFolder(id, folderIdOfStats(await handle.stat({ bigint: true })))) throw folderReplaced(path);
      return held;
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** A link to this folder, to be followed; nothing in the folder is looked up. */
  get itself(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  /** A path to this folder, or to the entry with that name. */
  path(name = '.'): string {
    // Built by hand: without the dot, the path would be a link, and links are not followed.
    return `/proc/self/fd/${this.#handle.fd}/${name}`;
  }

  /** The same for a name that may not be valid text. */
  bytes(name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(this.path('')), name]);
  }

  /** The directory's current path, in Latin-1. */
  realPath(): Promise<string> {
    return realPathOf(this.#handle);
  }

  /** Another handle of this folder. The caller closes it. */
  reopen(): Promise<FileHandle> {
    return open(this.path(), DIRECTORY_PATH_FLAGS);
  }

  /** Opens a subfolder to empty it. Restores the owner's permissions, which code may have removed; root does not need them. */
  async unlocked(name: Buffer): Promise<OpenDirectory> {
    await using way = await open(this.bytes(name), DIRECTORY_PATH_FLAGS);
    const { mode } = await way.stat();
    // Changes the held folder, because the name could mean another folder by now. If this process does not own it, later calls
    // fail as permitted.
    if ((mode & OWNER_BITS) !== OWNER_BITS) await chmod(`/proc/self/fd/${way.fd}`, OWNER_BITS).catch(() => {});
    return new OpenDirectory(await open(`/proc/self/fd/${way.fd}/.`, DIRECTORY_FLAGS));
  }

  /**
   * Gives a new file the owner of this folder, because a server that runs as root works for other users. Sets the mode that a
   * kernel's code would set, whatever the server's umask, because not every user of a folder owns it.
   */
  async adopt(file: FileHandle, mode: number): Promise<void> {
    this.#owner ??= this.#handle.stat();
    // One call at a time: each occupies a thread if the disk hangs.
    const own = await this.#owner;
    const made = await file.stat();
    if ((made.mode & 0o777) !== mode) await file.chmod(mode);
    if (made.uid !== own.uid || made.gid !== own.gid) await file.chown(own.uid, own.gid);
  }

  /** Creates a subfolder unless the name exists. */
  async make(name: string): Promise<void> {
    try {
      await mkdir(this.path(name), DIRECTORY_MODE);
    } catch (error) {
      if (systemCode(error) === 'EEXIST') return;
      throw error;
    }
    await using made = await open(this.path(name), DIRECTORY_FLAGS);
    await this.adopt(made, DIRECTORY_MODE);
  }

  /** Opens the subfolder with that name; undefined for a link or a file. */
  async below(name: string): Promise<OpenDirectory | undefined> {
    try {
      return new OpenDirectory(await open(this.path(name), DIRECTORY_PATH_FLAGS));
    } catch (error) {
      if (isLink(error)) return undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** Opened as a folder, a link fails with ENOTDIR or ELOOP. */
const isLink = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ELOOP' || error.code === 'ENOTDIR');

/** The limit of consecutive links, as in the system. */
const MOST_LINKS = 40;
const MOST_NAMES = 4096;

/** How many more names one request may look up. */
export class NameBudget {
  #left = MOST_NAMES;

  /** The names of a path, the next one last. */
  take(path: string): string[] {
    const names = path.split('/').reverse();
    this.#left -= names.length;
    if (this.#left < 0) throw errorOf('ELOOP');
    return names;
  }
}

interface ReachOptions {
  /** O_DIRECTORY if only a folder will do. */
  readonly flags: number;
  /** The folder's path as the code sees it. Absolute links must begin with it. */
  readonly inside: string;
  readonly names: NameBudget;
}

/**
 * Opens what a path below a folder leads to, without reading it: its place is then known and cannot change. Follows links here,
 * because the system would look up whatever they name, and its errors would tell code which files exist outside.
 */
export async function reach(
  root: OpenDirectory,
  path: string,
  { flags, inside, names }: ReachOptions,
): Promise<FileHandle> {
  const top = latin1(inside);
  const left = names.take(latin1(path));
  let [depth, links] = [0, 0];
  /** Undefined for the root. */
  let at: FileHandle | undefined;
  const closed: Promise<void>[] = [];
  const enter = (next: FileHandle | undefined) => {
    if (at) closed.push(at.close());
    at = next;
  };
  try {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      if (name === '' || name === '.') continue;
      const here = at ? `/proc/self/fd/${at.fd}` : root.itself;
      if (name === '..') {
        if (depth-- === 0) throw errorOf('EXDEV');
        const above = await open(`${here}/..`, DIRECTORY_PATH_FLAGS);
        enter(above);
        // Code may have moved the folder.
        await checkBelow(root, above);
        continue;
      }
      const found = await openName(`${here}/${name}`, left.length === 0 ? flags : constants.O_DIRECTORY);
      if (typeof found !== 'string') {
        depth++;
        enter(found);
        continue;
      }
      if (++links > MOST_LINKS) throw errorOf('ELOOP');
      if (!found.startsWith('/')) left.push(...names.take(found));
      else if (found !== top && !found.startsWith(`${top}/`)) throw errorOf('EXDEV');
      else {
        left.push(...names.take(found.slice(top.length)));
        depth = 0;
        enter(undefined);
      }
    }
    at ??= await root.reopen();
    await checkBelow(root, at);
    await Promise.all(closed);
    return at;
  } catch (error) {
    enter(undefined);
    await Promise.all(closed);
    throw error;
  }
}

/** The target, if it is a link. `name` is in Latin-1. */
async function openName(name: string, flags: number): Promise<FileHandle | string> {
  const path = Buffer.from(name, 'latin1');
  const handle = await open(path, O_PATH | constants.O_NOFOLLOW | flags).catch((error) => {
    if (isLink(error)) return undefined;
    throw error;
  });
  if (handle) {
    try {
      if (flags !== 0 || !(await handle.stat()).isSymbolicLink()) return handle;
    } catch (error) {
      await handle.close();
      throw error;
    }
    await handle.close();
  }
  return await readlink(path, { encoding: 'latin1' }).catch((error) => {
    // It is no link: a file where a folder must be, or something that has taken the link's name meanwhile.
    throw systemCode(error) === 'EINVAL' ? errorOf(flags === 0 ? 'EAGAIN' : 'ENOTDIR') : error;
  });
}

async function checkBelow(root: OpenDirectory, file: FileHandle): Promise<void> {
  const [top, real] = await Promise.all([root.realPath(), realPathOf(file)]);
  if (real !== top && !real.startsWith(`${top}/`)) throw errorOf('EXDEV');
}

/** Latin-1 maps each byte to one character: names may not be valid text. */
async function realPathOf({ fd }: FileHandle): Promise<string> {
  return await readlink(`/proc/self/fd/${fd}`, { encoding: 'latin1' });
}

const latin1 = (text: string): string => Buffer.from(text).toString('latin1');

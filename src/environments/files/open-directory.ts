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
      if (real !== Buffer.from(path).toString('latin1')) throw folderReplaced(path);
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

  /** The directory's current path. Latin-1 maps each byte to one character: names may not be valid text. */
  async realPath(): Promise<string> {
    return await readlink(`/proc/self/fd/${this.#handle.fd}`, { encoding: 'latin1' });
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

/** Each step starts at the root. Opening the resulting path detects changes in between. */
export async function resolveLinks(
  root: OpenDirectory,
  path: string,
  inside: string,
  names: NameBudget,
): Promise<string> {
  const left = names.take(path);
  let done: string[] = [];
  let links = 0;
  for (let name = left.pop(); name !== undefined; name = left.pop()) {
    if (name === '' || name === '.') continue;
    if (name === '..') {
      if (done.pop() === undefined) throw errorOf('EXDEV');
      continue;
    }
    const target = await readlink(root.path([...done, name].join('/'))).catch(() => undefined); // not a link, or missing
    if (target === undefined) {
      done.push(name);
      continue;
    }
    if (++links > MOST_LINKS) throw errorOf('ELOOP');
    if (target.startsWith('/')) {
      if (target !== inside && !target.startsWith(`${inside}/`)) throw errorOf('EXDEV');
      done = [];
    }
    left.push(...names.take(target.startsWith('/') ? target.slice(inside.length) : target));
  }
  return done.join('/');
}

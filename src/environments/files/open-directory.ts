/** A directory held open, so that work in it happens there and nowhere else, whatever code does to its name meanwhile.
 *
 * Linux gives every open directory a path, `/proc/self/fd/N`, that leads to the directory itself.
 */

import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readlink } from 'node:fs/promises';
import { systemCode } from '../../lib/errno.ts';
import { folderIdOfStats, isSameFolder } from '../../sandbox/spec.ts';
import { errorOf, folderReplaced } from './file-paths.ts';
import type { FilesRoot } from './session-files.ts';

/** Leads to something, also to what may not be read. Node has no name for O_PATH. */
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

  /** A path of the host's own, without links: if one stands in it, or another folder in its place, code has put it there. */
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

  /** A link to this folder, for who follows it: nothing in the folder is looked up. */
  get itself(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  /** A path that leads to this folder, or to what has that name in it. */
  path(name = '.'): string {
    // Put together by hand: without its dot the path would be a link, and links are not followed.
    return `/proc/self/fd/${this.#handle.fd}/${name}`;
  }

  /** The same for a name that may be no text. */
  bytes(name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(this.path('')), name]);
  }

  /** Where it lies now. Every byte of it is a letter of Latin-1: names may be no text. */
  async realPath(): Promise<string> {
    return await readlink(`/proc/self/fd/${this.#handle.fd}`, { encoding: 'latin1' });
  }

  /** For who empties it: its owner may, whatever code has taken from it. Root may do so anyway. */
  async unlocked(name: Buffer): Promise<OpenDirectory> {
    await using way = await open(this.bytes(name), DIRECTORY_PATH_FLAGS);
    const { mode } = await way.stat();
    // By what is held: a name could be another folder's by now. Who does not own it finds out what it may do there.
    if ((mode & OWNER_BITS) !== OWNER_BITS) await chmod(`/proc/self/fd/${way.fd}`, OWNER_BITS).catch(() => {});
    return new OpenDirectory(await open(`/proc/self/fd/${way.fd}/.`, DIRECTORY_FLAGS));
  }

  /**
   * What is made belongs to the owner of the folder: a server that runs as root works for other users. It has the mode
   * that code of a kernel would give it, whatever the umask of the server is: not every user of a folder owns it.
   */
  async adopt(file: FileHandle, mode: number): Promise<void> {
    this.#owner ??= this.#handle.stat();
    const [own, made] = await Promise.all([this.#owner, file.stat()]);
    if ((made.mode & 0o777) !== mode) await file.chmod(mode);
    if (made.uid !== own.uid || made.gid !== own.gid) await file.chown(own.uid, own.gid);
  }

  /** A folder in it, unless there is one of that name. */
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

  /** The folder of that name in it; undefined for a link or a file. */
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

/** Of a link, the system says that it is no folder. */
const isLink = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'ELOOP' || error.code === 'ENOTDIR');

/** Links in a row, as for the system itself. */
const MOST_LINKS = 40;
const MOST_NAMES = 4096;

/** What one request may still look at. */
export class NameBudget {
  #left = MOST_NAMES;

  /** Of a path, the next one last. */
  take(path: string): string[] {
    const names = path.split('/').reverse();
    this.#left -= names.length;
    if (this.#left < 0) throw errorOf('ELOOP');
    return names;
  }
}

/** Each step begins at the root; what changes meanwhile is noticed when the path is opened. */
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
    const target = await readlink(root.path([...done, name].join('/'))).catch(() => undefined); // no link, or nothing
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

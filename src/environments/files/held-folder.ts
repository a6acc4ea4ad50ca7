/**
 * A folder of a workspace that is held open, so that what is done in it is done there and nowhere else, whatever the
 * code in the session does to its name meanwhile.
 *
 * Linux gives every open folder a path, `/proc/self/fd/N`, that leads to the folder itself: a name below it is looked up
 * in that folder alone.
 */

import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, mkdir, open, readlink } from 'node:fs/promises';
import { folderIdOfStats, isSameFolder } from '../../sandbox/spec.ts';
import type { FilesRoot } from './files.ts';
import { replaced } from './path.ts';

/** Leads to something, also to what may not be read. Node has no name for O_PATH. */
export const WAY = 0o10000000;
const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FOLDER_WAY = WAY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FOLDER_MODE = 0o755;
const OWNERS = 0o700;

export class HeldFolder implements AsyncDisposable {
  readonly #handle: FileHandle;
  #owner: Promise<Stats> | undefined;

  constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** A path of the host's own, without links: if one stands in it, or another folder in its place, code has put it there. */
  static async root({ path, id }: Pick<FilesRoot, 'path' | 'id'>): Promise<HeldFolder> {
    const handle = await open(path, FOLDER_WAY).catch((error) => {
      throw isLink(error) ? replaced(path, error) : error;
    });
    const held = new HeldFolder(handle);
    try {
      const real = await held.realPath();
      if (real !== Buffer.from(path).toString('latin1')) throw replaced(path);
      if (id && !isSameFolder(id, folderIdOfStats(await handle.stat({ bigint: true })))) throw replaced(path);
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
  async unlocked(name: Buffer): Promise<HeldFolder> {
    await using way = await open(this.bytes(name), FOLDER_WAY);
    const { mode } = await way.stat();
    // By what is held: a name could be another folder's by now. Who does not own it finds out what it may do there.
    if ((mode & OWNERS) !== OWNERS) await chmod(`/proc/self/fd/${way.fd}`, OWNERS).catch(() => {});
    return new HeldFolder(await open(`/proc/self/fd/${way.fd}/.`, FOLDER));
  }

  /**
   * What is made belongs to whoever owns the folder: a daemon that runs as root works for other users. It has the mode
   * that code of a kernel would give it, whatever the umask of the daemon is: not every user of a folder owns it.
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
      await mkdir(this.path(name), FOLDER_MODE);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return;
      throw error;
    }
    await using made = await open(this.path(name), FOLDER);
    await this.adopt(made, FOLDER_MODE);
  }

  /** The folder of that name in it; undefined for a link or a file. */
  async below(name: string): Promise<HeldFolder | undefined> {
    try {
      return new HeldFolder(await open(this.path(name), FOLDER_WAY));
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

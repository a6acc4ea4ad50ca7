/**
 * A folder of a workspace that is held open, so that what is done in it is done there and nowhere else, whatever the
 * code in the session does to its name meanwhile.
 *
 * Linux gives every open folder a path, `/proc/self/fd/N`, that leads to the folder itself: a name below it is looked up
 * in that folder alone. Links are never followed.
 */

import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, mkdir, open } from 'node:fs/promises';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Leads to a folder, also to one that may not be read. Node has no name for O_PATH. */
const WAY = 0o10000000 | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FOLDER_MODE = 0o755;
const OWNERS = 0o700;

export class HeldFolder implements AsyncDisposable {
  readonly #handle: FileHandle;
  #owner: Promise<Stats> | undefined;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /**
   * The root of a workspace: a path of the host's own, without links. Where code runs as the host's own user it can put
   * a link in the place of its workspace: that is not followed.
   */
  static async root(path: string): Promise<HeldFolder> {
    return new HeldFolder(await open(path, FOLDER));
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

  /** Whether it is in no other folder any more. */
  async removed(): Promise<boolean> {
    return (await this.#handle.stat()).nlink === 0;
  }

  async folder(name: string | Buffer): Promise<HeldFolder> {
    return new HeldFolder(await open(typeof name === 'string' ? this.path(name) : this.bytes(name), FOLDER));
  }

  /** As `folder`, for who empties it: its owner may, whatever code has taken from it. Root may do so anyway. */
  async unlocked(name: Buffer): Promise<HeldFolder> {
    {
      await using way = await open(this.bytes(name), WAY);
      const { mode } = await way.stat();
      // By what is held: a name could be another folder's by now. Who does not own it finds out what it may do there.
      if ((mode & OWNERS) !== OWNERS) await chmod(`/proc/self/fd/${way.fd}`, OWNERS).catch(() => {});
    }
    return await this.folder(name);
  }

  /** The folder that the names lead to, made where it is missing and `create` says so. This one stays open. */
  async walk(names: readonly string[], { create = false } = {}): Promise<HeldFolder> {
    let at = await this.folder('.');
    for (const name of names) {
      const before = at;
      try {
        if (create) await before.#make(name);
        at = await before.folder(name);
      } finally {
        await before[Symbol.asyncDispose]();
      }
    }
    return at;
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

  async #make(name: string): Promise<void> {
    try {
      await mkdir(this.path(name), FOLDER_MODE);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return;
      throw error;
    }
    await using made = await open(this.path(name), FOLDER);
    await this.adopt(made, FOLDER_MODE);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close();
  }
}

/** Files reached with the rights of this process. All operations start from folders that are held open. */

import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, link, lstat, mkdir, open, opendir, rename, rmdir, unlink } from 'node:fs/promises';
import { giveWay } from '../../lib/event-loop.ts';
import type { FileInfo } from '../../protocol/workspace-models.ts';
import { BoundedListing } from './file-limits.ts';
import { errorOf, isCode, kindOf } from './file-paths.ts';
import { NameBudget, OpenDirectory, reach } from './open-directory.ts';
import { removeTree } from './remove-tree.ts';
import type { Files, FilesRoot, Listing, NewFile } from './session-files.ts';

const FILE_MODE = 0o644;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const READ = constants.O_RDONLY | constants.O_NONBLOCK;
const FOLDER = READ | constants.O_DIRECTORY;

export class HostFiles implements Files {
  readonly #root: FilesRoot;

  constructor(root: FilesRoot) {
    this.#root = root;
  }

  async list(path: string, most: number, mostBytes = Number.POSITIVE_INFINITY): Promise<Listing> {
    await using folder = await this.#folder(path);
    const listing = new BoundedListing(most, mostBytes);
    // Latin-1 maps each byte to one character: file names may not be valid text.
    for await (const entry of await opendir(folder.itself, { bufferSize: 256, encoding: 'latin1' })) {
      await giveWay();
      const bytes = Buffer.from(entry.name, 'latin1');
      const info = await lstat(folder.bytes(bytes)).then(
        (stats) => infoOf(bytes.toString(), stats),
        // The file may be gone. If the folder is readable but not searchable, only names are known.
        (error) =>
          isCode(error, 'EACCES') ? { name: bytes.toString(), kind: kindOf(entry), size: 0, modifiedAt: 0 } : undefined,
      );
      if (info && !listing.add(info)) break;
    }
    return listing;
  }

  async entry(path: string): Promise<FileInfo> {
    const [above, name] = split(path);
    await using parent = await this.#folder(above);
    return infoOf(name, await lstat(parent.path(name)));
  }

  async read(path: string): Promise<{ info: FileInfo; file: FileHandle }> {
    await using root = await OpenDirectory.root(this.#root);
    // Look before opening: opening a pipe or a device has side effects.
    await using way = await this.#reach(root, path, 0);
    const stats = await way.stat();
    if (!stats.isFile()) throw errorOf(stats.isDirectory() ? 'EISDIR' : 'ENOFILE');
    return { info: infoOf(split(path)[1], stats), file: await open(`/proc/self/fd/${way.fd}`, READ) };
  }

  async create(path: string): Promise<NewFile> {
    const [above, name] = split(path);
    await this.makeFolder(above);
    const parent = await this.#folder(above);
    try {
      const there = await lstat(parent.path(name)).catch(() => undefined); // a missing file is fine
      if (there && !there.isFile() && !there.isSymbolicLink()) throw errorOf('ENOFILE');
      const partial = parent.path(`.${randomUUID()}.part`);
      const file = await open(partial, CREATE, FILE_MODE);
      const end = async () => {
        try {
          await file.close();
        } finally {
          await parent[Symbol.asyncDispose]();
        }
      };
      const discard = async () => {
        await unlink(partial).catch(() => {}); // report the first failure
        await end();
      };
      return {
        file,
        commit: async () => {
          try {
            await parent.adopt(file, FILE_MODE);
            await rename(partial, parent.path(name));
          } catch (error) {
            await discard();
            throw error;
          }
          try {
            return infoOf(name, await file.stat());
          } finally {
            await end();
          }
        },
        discard,
      };
    } catch (error) {
      await parent[Symbol.asyncDispose]();
      throw error;
    }
  }

  async makeFolder(path: string): Promise<void> {
    try {
      await using _there = await this.#folder(path);
      return;
    } catch (error) {
      if (!isCode(error, 'ENOENT')) throw error;
    }
    const names = path.split('/');
    const namesLeft = new NameBudget();
    let above = await this.#folder('');
    try {
      for (const [index, name] of names.entries()) {
        await above.make(name);
        // Resolves a link from the start of the path.
        const below = (await above.below(name)) ?? (await this.#folder(names.slice(0, index + 1).join('/'), namesLeft));
        await above[Symbol.asyncDispose]();
        above = below;
      }
    } finally {
      await above[Symbol.asyncDispose]();
    }
  }

  async move(from: string, to: string, replace: boolean): Promise<FileInfo> {
    const [[above, name], [newAbove, newName]] = [split(from), split(to)];
    await using source = await this.#folder(above);
    await lstat(source.path(name));
    await this.makeFolder(newAbove);
    await using target = await this.#folder(newAbove);
    const [old, free] = [source.path(name), target.path(newName)];
    await (replace ? rename(old, free) : renameToFree(old, free));
    return infoOf(newName, await lstat(target.path(newName)));
  }

  async remove(path: string, recursive: boolean): Promise<void> {
    const [above, name] = split(path);
    await using parent = await this.#folder(above);
    const stats = await lstat(parent.path(name));
    if (!stats.isDirectory()) await unlink(parent.path(name));
    else if (recursive) await removeTree(parent, Buffer.from(name));
    else await rmdir(parent.path(name));
  }

  async folder(path: string): Promise<FileHandle> {
    await using root = await OpenDirectory.root(this.#root);
    await using way = await this.#reach(root, path, constants.O_DIRECTORY);
    return await open(`/proc/self/fd/${way.fd}/.`, FOLDER);
  }

  async #folder(path: string, names?: NameBudget): Promise<OpenDirectory> {
    await using root = await OpenDirectory.root(this.#root);
    return new OpenDirectory(await this.#reach(root, path, constants.O_DIRECTORY, names));
  }

  #reach(root: OpenDirectory, path: string, flags: number, names = new NameBudget()): Promise<FileHandle> {
    const { inside = this.#root.path } = this.#root;
    return reach(root, path, { flags, inside, names });
  }
}

function split(path: string): readonly [above: string, name: string] {
  const at = path.lastIndexOf('/');
  return at < 0 ? ['', path] : [path.slice(0, at), path.slice(at + 1)];
}

function infoOf(name: string, stats: Stats): FileInfo {
  return { name, kind: kindOf(stats), size: stats.size, modifiedAt: Math.trunc(stats.mtimeMs) };
}

async function renameToFree(from: string, to: string): Promise<void> {
  if ((await lstat(from)).isDirectory()) return await renameFolder(from, to);
  await link(from, to);
  try {
    await unlink(from);
  } catch (error) {
    await unlink(to).catch(() => {}); // report the first failure
    throw error;
  }
}

/** An empty folder reserves the name. A rename replaces only an empty folder, so nothing else can be lost. */
async function renameFolder(from: string, to: string): Promise<void> {
  await mkdir(to);
  try {
    await rename(from, to);
  } catch (error) {
    await rmdir(to).catch(() => {}); // something else has the name now
    throw error;
  }
}

/** The files of a session, for its clients: list, read, write, move, delete and watch, in its workspace and nowhere else. */

import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, opendir, rename, rmdir, unlink } from 'node:fs/promises';
import { CellaError } from '../../protocol/errors.ts';
import type { FileChange } from '../../protocol/http/file-routes.ts';
import { HeldFolder } from './held-folder.ts';
import { type FileKind, kindOf } from './kind.ts';
import { explained, partsOf, refused } from './path.ts';
import { removeTree } from './remove-tree.ts';
import { replaceFile } from './replace-file.ts';
import type { WatchShare } from './watch-share.ts';
import { watchTree } from './watch-tree.ts';

export interface FileInfo {
  readonly name: string;
  readonly kind: FileKind;
  readonly size: number;
  /** Milliseconds since 1970. */
  readonly modifiedAt: number;
}

export interface Listing {
  readonly files: readonly FileInfo[];
  /** Where there are more than a listing holds. */
  readonly cut: boolean;
}

const MOST_LISTED = 10_000;
const CHUNK_BYTES = 256 * 1024;
/** A pipe that nobody writes to must not be waited for. */
const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export class Workspace {
  readonly #root: string;

  constructor(root: string) {
    if (process.platform !== 'linux') {
      throw new CellaError('CAPABILITY_MISSING', 'Files of a session can be reached on Linux only.');
    }
    this.#root = root;
  }

  /** By name. */
  list(path: string): Promise<Listing> {
    return this.#at(path, { whole: true }, async (folder) => {
      const files: FileInfo[] = [];
      for await (const { name } of await opendir(folder.path())) {
        if (files.length >= MOST_LISTED) return { files: files.toSorted(byName), cut: true };
        const stats = await lstat(folder.path(name)).catch(() => undefined); // gone meanwhile
        if (stats) files.push(infoOf(name, stats));
      }
      return { files: files.toSorted(byName), cut: false };
    });
  }

  /** The bytes from `start` on. Whoever reads them to the end, or stops, closes the file. */
  async read(path: string, start = 0): Promise<{ info: FileInfo; chunks: AsyncIterable<Uint8Array> }> {
    return await this.#at(path, {}, async (folder, name) => {
      const file = await open(folder.path(name), READ);
      const stats = await file.stat();
      if (stats.isFile()) return { info: infoOf(name, stats), chunks: chunksOf(file, start) };
      await file.close();
      throw refused(path, 'it is no file');
    });
  }

  /** All of it or nothing: what had the name before stays until the last byte is written. */
  write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { limitBytes = Number.MAX_SAFE_INTEGER } = {},
  ): Promise<FileInfo> {
    return this.#at(path, { create: true }, async (folder, name) =>
      infoOf(name, await replaceFile(folder, name, { path, chunks, limitBytes })),
    );
  }

  async makeFolder(path: string): Promise<void> {
    const parts = partsOf(path);
    await using root = await HeldFolder.root(this.#root);
    await using _made = await root.walk(parts, { create: true }).catch((error) => {
      throw explained(path, error);
    });
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return this.#at(from, {}, async (source, name) => {
      await lstat(source.path(name));
      return await this.#at(to, { create: true }, async (target, newName) => {
        const taken = await lstat(target.path(newName)).catch(() => undefined); // nothing there is well
        if (taken && !replace) throw new CellaError('NAME_TAKEN', `${JSON.stringify(to)} is there already.`);
        await rename(source.path(name), target.path(newName)).catch((error) => {
          if (error instanceof Error && 'code' in error && error.code === 'EINVAL') {
            throw refused(to, 'a folder cannot be moved into itself');
          }
          throw error;
        });
        return infoOf(newName, await lstat(target.path(newName)));
      });
    });
  }

  /** A folder with something in it only where `recursive` says so. A link goes, and what it leads to stays. */
  delete(path: string, { recursive = false } = {}): Promise<void> {
    return this.#at(path, {}, async (folder, name) => {
      const stats = await lstat(folder.path(name));
      if (!stats.isDirectory()) await unlink(folder.path(name));
      else if (recursive) await removeTree(folder, Buffer.from(name));
      else await rmdir(folder.path(name));
    });
  }

  /** What changes below a folder, until the signal aborts; `NOT_FOUND` where the folder itself goes. */
  watch(path: string, share: WatchShare, signal: AbortSignal): AsyncGenerator<FileChange> {
    return watchTree({ root: this.#root, path, share, signal });
  }

  /** `whole`: the path names the folder itself; otherwise something in it. */
  async #at<T>(
    path: string,
    { whole = false, create = false },
    work: (folder: HeldFolder, name: string) => Promise<T>,
  ): Promise<T> {
    const parts = partsOf(path);
    const name = whole ? '.' : parts.pop();
    if (name === undefined) throw refused(path, 'it is the workspace itself');
    try {
      await using root = await HeldFolder.root(this.#root);
      await using folder = await root.walk(parts, { create });
      return await work(folder, name);
    } catch (error) {
      throw explained(path, error);
    }
  }
}

async function* chunksOf(file: FileHandle, start: number): AsyncIterable<Uint8Array> {
  try {
    for (let position = start; ; ) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, position);
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

function infoOf(name: string, stats: Stats): FileInfo {
  return { name, kind: kindOf(stats), size: stats.size, modifiedAt: Math.trunc(stats.mtimeMs) };
}

const byName = (one: FileInfo, other: FileInfo): number => (one.name < other.name ? -1 : 1);

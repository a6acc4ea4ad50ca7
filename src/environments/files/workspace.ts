/** The files of a session, for its clients: list, read, write, move, delete and watch, in its workspace and nowhere else. */

import type { FileHandle } from 'node:fs/promises';
import { sortedInSlices } from '../../lib/event-loop.ts';
import type { FileChange } from '../../protocol/http/file-routes.ts';
import { type FileInfo, type Files, type FilesRoot, type Listing, openFiles } from './files.ts';
import { explained, isCode, partsOf, refused } from './path.ts';
import { replaceFile } from './replace-file.ts';
import { askerOf } from './turns.ts';
import type { WatchShare } from './watch-share.ts';
import { watchTree } from './watch-tree.ts';

const MOST_LISTED = 10_000;
/** Of names, as JSON has them. Ten thousand usual names have a fifth of this. */
const MOST_LISTED_BYTES = 2 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;

export class Workspace {
  readonly files: Files;
  readonly #whose: string;

  constructor(root: FilesRoot) {
    this.#whose = askerOf(root);
    this.files = openFiles(root);
  }

  /** By name. */
  list(path: string): Promise<Omit<Listing, 'bytes'>> {
    return told(path, async () => {
      const { files, cut } = await this.files.list(partsOf(path).join('/'), MOST_LISTED, MOST_LISTED_BYTES);
      return { files: await sortedInSlices(files, byName), cut };
    });
  }

  /** The bytes from `start` on. Whoever reads them to the end, or stops, closes the file. */
  read(path: string, start = 0): Promise<{ info: FileInfo; chunks: AsyncIterable<Uint8Array> }> {
    return told(path, async () => {
      const { info, file } = await this.files.read(below(path));
      return { info, chunks: chunksOf(file, start) };
    });
  }

  /** All of it or nothing: what had the name before stays until the last byte is written. */
  write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { limitBytes = Number.MAX_SAFE_INTEGER } = {},
  ): Promise<FileInfo> {
    return told(path, () => replaceFile(this.files, below(path), { chunks, limitBytes }));
  }

  makeFolder(path: string): Promise<void> {
    return told(path, () => this.files.makeFolder(partsOf(path).join('/')));
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return told(from, async () => {
      const [source, target] = [below(from), below(to)];
      try {
        return await this.files.move(source, target, replace);
      } catch (error) {
        if (isCode(error, 'EINVAL')) throw refused(to, 'a folder cannot be moved into itself');
        // What is there already is at the other end.
        throw ['EEXIST', 'ENOTEMPTY', 'EISDIR'].some((code) => isCode(error, code)) ? explained(to, error) : error;
      }
    });
  }

  /** A folder with something in it only where `recursive` says so. A link goes, and what it leads to stays. */
  delete(path: string, { recursive = false } = {}): Promise<void> {
    return told(path, () => this.files.remove(below(path), recursive));
  }

  /** What changes below a folder, until the signal aborts; `NOT_FOUND` where the folder itself goes. */
  watch(path: string, share: WatchShare, signal: AbortSignal): AsyncGenerator<FileChange> {
    return watchTree({ files: this.files, path, share, whose: this.#whose, signal });
  }
}

/** The path of something in the workspace. */
function below(path: string): string {
  const parts = partsOf(path);
  if (parts.length === 0) throw refused(path, 'it is the workspace itself');
  return parts.join('/');
}

async function told<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw explained(path, error);
  }
}

/** Closes the file at its end, and also if the reader leaves before the first chunk: a generator would not begin then. */
function chunksOf(file: FileHandle, start: number): AsyncIterableIterator<Uint8Array> {
  const chunks = readFrom(file, start);
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => chunks.next(),
    return: async () => {
      await chunks.return();
      await file.close();
      return { done: true, value: undefined };
    },
  };
}

async function* readFrom(file: FileHandle, start: number): AsyncGenerator<Uint8Array, void, undefined> {
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

const byName = (one: FileInfo, other: FileInfo): number => (one.name < other.name ? -1 : 1);

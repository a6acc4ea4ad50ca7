/** A session's files for its clients: list, read, write, move, delete and watch, only within the workspace. */

import type { FileHandle } from 'node:fs/promises';
import { inSlices, sortedInSlices } from '../../lib/event-loop.ts';
import { asError, systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileChange, FileInfo } from '../../protocol/workspace-models.ts';
import type { FileEntry } from '../environment.ts';
import { askerOf, type FilesInTurn } from './file-limits.ts';
import { invalidPath, isCode, partsOf, toFileError } from './file-paths.ts';
import type { Glob } from './glob.ts';
import { isGone } from './remove-tree.ts';
import { type Files, type FilesRoot, type Listing, openFiles } from './session-files.ts';
import { joinPath, type WatchBudget, watchTree } from './watch-tree.ts';

const MOST_LISTED = 10_000;
/** The length of the names in JSON. Ten thousand typical names take a fifth of this. */
const MOST_LISTED_BYTES = 2 * 1024 * 1024;
const CHUNK_BYTES = 256 * 1024;

export class WorkspaceFiles {
  readonly files: FilesInTurn;
  readonly #whose: string;

  constructor(root: FilesRoot) {
    this.#whose = askerOf(root);
    this.files = openFiles(root);
  }

  /** Sorted by name. */
  list(path: string): Promise<Omit<Listing, 'bytes'>> {
    return withFileErrors(path, async () => {
      const { files, cut } = await this.files.list(partsOf(path).join('/'), MOST_LISTED, MOST_LISTED_BYTES);
      return { files: await sortedInSlices(files, byName), cut };
    });
  }

  /** Reads the bytes from `start` on. The file is closed at its end, or when the reader stops. */
  read(path: string, start = 0): Promise<{ info: FileInfo; chunks: AsyncIterable<Uint8Array> }> {
    return withFileErrors(path, async () => {
      const { info, file } = await this.files.read(checkedPath(path));
      return { info, chunks: chunksOf(this.files, file, start) };
    });
  }

  /** Writes all or nothing: an existing file stays until the last byte is written. */
  write(
    path: string,
    chunks: AsyncIterable<Uint8Array>,
    { limitBytes = Number.MAX_SAFE_INTEGER } = {},
  ): Promise<FileInfo> {
    return withFileErrors(path, () => replaceFile(this.files, checkedPath(path), { chunks, limitBytes }));
  }

  makeFolder(path: string): Promise<void> {
    return withFileErrors(path, () => this.files.makeFolder(partsOf(path).join('/')));
  }

  move(from: string, to: string, { replace = false } = {}): Promise<FileInfo> {
    return withFileErrors(from, async () => {
      const [source, target] = [checkedPath(from), checkedPath(to)];
      try {
        return await this.files.move(source, target, replace);
      } catch (error) {
        if (isCode(error, 'EINVAL')) throw invalidPath(to, 'a folder cannot be moved into itself');
        // The conflict is at the destination.
        throw ['EEXIST', 'ENOTEMPTY', 'EISDIR'].some((code) => isCode(error, code)) ? toFileError(to, error) : error;
      }
    });
  }

  /** Deletes a folder that is not empty only if `recursive` is set. Deletes a link, not its target. */
  delete(path: string, { recursive = false } = {}): Promise<void> {
    return withFileErrors(path, () => this.files.remove(checkedPath(path), recursive));
  }

  /** Reports changes below a folder until the signal aborts; fails with `NOT_FOUND` if the folder itself is removed. */
  watch(path: string, share: WatchBudget, signal: AbortSignal): AsyncGenerator<FileChange> {
    return watchTree({ files: this.files, path, share, whose: this.#whose, signal });
  }
}

/** Parses a path in the workspace. */
function checkedPath(path: string): string {
  const parts = partsOf(path);
  if (parts.length === 0) throw invalidPath(path, 'it is the workspace itself');
  return parts.join('/');
}

async function withFileErrors<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFileError(path, error);
  }
}

/** Closes the file at its end and if the reader stops before the first chunk, when a generator's `finally` would not run. */
function chunksOf(files: FilesInTurn, file: FileHandle, start: number): AsyncIterableIterator<Uint8Array> {
  const chunks = readFrom(files, file, start);
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    next: () => chunks.next(),
    return: async () => {
      await chunks.return();
      await files.endOpen(() => file.close());
      return { done: true, value: undefined };
    },
  };
}

async function* readFrom(
  files: FilesInTurn,
  file: FileHandle,
  start: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let position = start; ; ) {
      const { bytesRead, buffer } = await files.stepOpen(() =>
        file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, position),
      );
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await files.endOpen(() => file.close());
  }
}

const byName = (one: FileInfo, other: FileInfo): number => (one.name < other.name ? -1 : 1);

interface NewContent {
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly limitBytes?: number;
}

async function replaceFile(
  files: FilesInTurn,
  path: string,
  { chunks, limitBytes = Number.MAX_SAFE_INTEGER }: NewContent,
): Promise<FileInfo> {
  const made = await files.create(path);
  try {
    let size = 0;
    for await (const chunk of chunks) {
      size += chunk.byteLength;
      if (size > limitBytes) {
        throw new CellaError('TOO_LARGE', `The file is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
      }
      await files.stepOpen(() => made.file.writeFile(chunk));
    }
  } catch (error) {
    await made.discard().catch(() => {}); // report the first failure
    throw error;
  }
  return await made.commit();
}

interface FileContent {
  readonly path: string;
  readonly content: Uint8Array;
}

const WRITES_AT_ONCE = 16;

/**
 * Results in the order of the files: undefined if written, otherwise the error. If two have the same path, the later one stays.
 */
export async function writeMany(files: FilesInTurn, contents: readonly FileContent[]): Promise<(Error | undefined)[]> {
  const results = new Array<Error | undefined>(contents.length).fill(undefined);
  const fail = (index: number, path: string, error: unknown) => {
    const problem = toFileError(path, error);
    results[index] = asError(problem);
  };
  const last = new Map<string, { index: number; path: string; content: Uint8Array }>();
  for (const [index, { path, content }] of contents.entries()) {
    try {
      const parts = partsOf(path);
      if (parts.length === 0) throw invalidPath(path, 'it is the folder itself');
      last.set(parts.join('/'), { index, path, content });
    } catch (error) {
      fail(index, path, error);
    }
  }
  await eachAtOnce(last, async ([at, { index, path, content }]) => {
    await replaceFile(files, at, { chunks: [content] }).catch((error) => fail(index, path, error));
  });
  return results;
}

async function eachAtOnce<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const left = items[Symbol.iterator]();
  const worker = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await work(next.value);
  };
  await Promise.all(Array.from({ length: WRITES_AT_ONCE }, worker));
}

/** Throws beyond this limit: a list cut silently would look complete. */
const MOST_TREE_ENTRIES = 100_000;
const MOST_LOOKED_AT = 1_000_000;
const MOST_DEEP = 64;
/** Limit of all paths together: each can be as long as all folder names above it. */
const MOST_TREE_BYTES = 64 * 1024 * 1024;

/** `top` is the folder that the resulting paths are relative to. */
export async function listTree(files: Files, top: string, glob: Glob): Promise<FileEntry[]> {
  const found: FileEntry[] = [];
  let [lookedAt, bytes] = [0, 0];

  const visit = async (path: string, depth: number): Promise<void> => {
    const listing = await files.list(joinPath(top, path), MOST_TREE_ENTRIES + 1, MOST_TREE_BYTES);
    lookedAt += listing.files.length;
    if (listing.cut || lookedAt > MOST_LOOKED_AT) throw tooMany();
    const folders: string[] = [];
    for await (const { name, kind, size, modifiedAt } of inSlices(listing.files)) {
      const inner = joinPath(path, name);
      if (kind === 'folder' && depth < MOST_DEEP && glob.reaches(inner)) folders.push(inner);
      if (!glob.matches(inner)) continue;
      bytes += inner.length;
      if (found.length >= MOST_TREE_ENTRIES || bytes > MOST_TREE_BYTES) throw tooMany();
      found.push({ path: inner, type: kind, bytes: size, modifiedAt });
    }
    for (const inner of folders) {
      await visit(inner, depth + 1).catch((error) => {
        // The folder is gone, now a link, or closed to the code: there is nothing to list.
        if (error instanceof CellaError || !isSkipped(error)) throw error;
      });
    }
  };

  await visit('', 0);
  return await sortedInSlices(found, (one, other) => (one.path < other.path ? -1 : 1));
}

function isSkipped(error: unknown): boolean {
  const code = systemCode(error);
  return isGone(error) || code === 'ENOTDIR' || code === 'EXDEV' || code === 'ELOOP' || code === 'EACCES';
}

function tooMany(): CellaError {
  const advice = 'List a subfolder, or use a narrower pattern.';
  return new CellaError(
    'TOO_LARGE',
    `There are too many files for a list; it can have: ${MOST_TREE_ENTRIES}, or ${MOST_TREE_BYTES} bytes of paths.`,
    { advice },
  );
}

/** The files of an environment, reached on the host: whatever runs inside, and also while nothing does. */

import { CellaError } from '../protocol/errors.ts';
import type { FileChange as TreeChange } from '../protocol/http/file-routes.ts';
import type { BasePaths, FileChange, FileEntry, FileWrite, FileWritten } from './contract.ts';
import { type FilesRoot, openFiles } from './files/files.ts';
import { Glob } from './files/glob.ts';
import { listTree } from './files/list-tree.ts';
import { explained, partsOf, refused } from './files/path.ts';
import { askerOf } from './files/turns.ts';
import { ownWatches } from './files/watch-share.ts';
import { watchTree } from './files/watch-tree.ts';
import { Workspace } from './files/workspace.ts';
import { writeMany } from './files/write-many.ts';
import { basePathsOf, type EnvironmentFolders, type EnvironmentRoots, placeOf } from './folders.ts';

/** What is read is held in memory, whatever the code inside has made of the file. */
const MOST_BYTES = 256 * 1024 * 1024;

export abstract class EnvironmentFiles {
  protected readonly folders: EnvironmentFolders;
  readonly #roots: EnvironmentRoots;

  protected constructor(folders: EnvironmentFolders, roots: EnvironmentRoots) {
    this.folders = folders;
    this.#roots = roots;
  }

  getBasePaths(): BasePaths {
    return basePathsOf(this.folders);
  }

  async readBytes(path: string): Promise<Uint8Array> {
    const at = placeOf(this.folders, this.#roots, path);
    const { info, chunks } = await new Workspace(at.root).read(at.path);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const chunk of chunks) {
      bytes += chunk.length;
      if (info.size > MOST_BYTES || bytes > MOST_BYTES) throw tooLarge(path);
      parts.push(chunk);
    }
    return Buffer.concat(parts);
  }

  async readFile(path: string): Promise<string> {
    const bytes = await this.readBytes(path);
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    } catch {
      throw refused(path, 'it is no text in UTF-8', { advice: 'Read its bytes.' });
    }
  }

  async writeFile(path: string, content: string | Uint8Array): Promise<void> {
    const at = placeOf(this.folders, this.#roots, path);
    await new Workspace(at.root).write(at.path, only(bytesOf(content)));
  }

  async writeFiles(files: readonly FileWrite[]): Promise<readonly FileWritten[]> {
    const results = new Array<FileWritten>(files.length);
    const roots = new Map<FilesRoot, { index: number; path: string; content: Uint8Array }[]>();
    for (const [index, { path, content }] of files.entries()) {
      try {
        const at = placeOf(this.folders, this.#roots, path);
        const inRoot = roots.get(at.root) ?? [];
        roots.set(at.root, inRoot);
        inRoot.push({ index, path: at.path, content: bytesOf(content) });
      } catch (error) {
        results[index] = { path, ok: false, error: error instanceof Error ? error : new Error(String(error)) };
      }
    }
    for (const [root, inRoot] of roots) {
      const errors = await writeMany(openFiles(root), inRoot);
      for (const [at, { index }] of inRoot.entries()) {
        const path = files[index]?.path ?? '';
        const error = errors[at];
        results[index] = error ? { path, ok: false, error } : { path, ok: true };
      }
    }
    return results;
  }

  async listFiles(path: string, pattern = '**'): Promise<readonly FileEntry[]> {
    const at = placeOf(this.folders, this.#roots, path);
    const glob = new Glob(pattern);
    try {
      return await listTree(openFiles(at.root), partsOf(at.path).join('/'), glob);
    } catch (error) {
      throw explained(path, error);
    }
  }

  async watch(path: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<AsyncIterable<FileChange>> {
    const at = placeOf(this.folders, this.#roots, path);
    const over = new AbortController();
    const end = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
    const whose = askerOf(at.root);
    const changes = watchTree({ files: openFiles(at.root), path: at.path, share: ownWatches, whose, signal: end });
    // The first that it says is that it watches.
    await changes.next();
    // Also where nobody ever asks for the next.
    end.addEventListener('abort', () => void changes.return(undefined).catch(() => {}), { once: true }); // it ends either way
    return {
      [Symbol.asyncIterator]: () => {
        const told = tell(changes);
        const stop = () => {
          over.abort();
          return told.return(undefined);
        };
        return { next: () => told.next(), return: stop };
      },
    };
  }
}

async function* tell(changes: AsyncGenerator<TreeChange>): AsyncGenerator<FileChange, undefined> {
  for await (const change of changes) {
    switch (change.type) {
      case 'watching':
        break;
      case 'created':
      case 'deleted':
        yield { path: change.path, change: change.type };
        break;
      case 'changed':
        yield { path: change.path, change: 'modified' };
        break;
      case 'overflow':
        yield { path: '', change: 'overflow' };
        break;
    }
  }
}

const bytesOf = (content: string | Uint8Array): Uint8Array =>
  typeof content === 'string' ? Buffer.from(content) : content;

async function* only(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

function tooLarge(path: string): CellaError {
  return new CellaError('TOO_LARGE', `${JSON.stringify(path.slice(0, 200))} is larger than ${MOST_BYTES} bytes.`, {
    advice: 'Read it in parts, from inside the environment.',
  });
}

/** The files of an environment, reached on the host, even if nothing runs in it. */

import { realpathSync, statSync } from 'node:fs';
import { z } from 'zod';
import { asError } from '../../lib/values.ts';
import { FolderId } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileChange } from '../../protocol/workspace-models.ts';
import { checkFolderId } from '../../sandbox/named-folders.ts';
import type { BasePaths, EnvironmentFileChange, FileEntry, FileWrite, FileWritten } from '../environment.ts';
import { askerOf } from './file-limits.ts';
import { folderReplaced, invalidPath, partsOf, toFileError } from './file-paths.ts';
import { Glob } from './glob.ts';
import { type FilesRoot, openFiles } from './session-files.ts';
import { processWatches, watchTree } from './watch-tree.ts';
import { listTree, WorkspaceFiles, writeMany } from './workspace-files.ts';

/** The whole file is read into memory, and code controls its size. */
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
    const at = locateFile(this.folders, this.#roots, path);
    const { info, chunks } = await new WorkspaceFiles(at.root).read(at.path);
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
      throw invalidPath(path, 'it is not UTF-8 text', { advice: 'Read its bytes.' });
    }
  }

  async writeFile(path: string, content: string | Uint8Array): Promise<void> {
    const at = locateFile(this.folders, this.#roots, path);
    await new WorkspaceFiles(at.root).write(at.path, only(bytesOf(content)));
  }

  async writeFiles(files: readonly FileWrite[]): Promise<readonly FileWritten[]> {
    const results = new Array<FileWritten>(files.length);
    const roots = new Map<FilesRoot, { index: number; path: string; content: Uint8Array }[]>();
    for (const [index, { path, content }] of files.entries()) {
      try {
        const at = locateFile(this.folders, this.#roots, path);
        const inRoot = roots.get(at.root) ?? [];
        roots.set(at.root, inRoot);
        inRoot.push({ index, path: at.path, content: bytesOf(content) });
      } catch (error) {
        results[index] = { path, ok: false, error: asError(error) };
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
    const at = locateFile(this.folders, this.#roots, path);
    const glob = new Glob(pattern);
    try {
      return await listTree(openFiles(at.root), partsOf(at.path).join('/'), glob);
    } catch (error) {
      throw toFileError(path, error);
    }
  }

  async watch(
    path: string,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<AsyncIterable<EnvironmentFileChange>> {
    const at = locateFile(this.folders, this.#roots, path);
    const over = new AbortController();
    const end = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
    const whose = askerOf(at.root);
    const changes = watchTree({ files: openFiles(at.root), path: at.path, share: processWatches, whose, signal: end });
    // The first event only reports that the watch has begun.
    await changes.next();
    // Ends the watch even if the reader never asks for another event.
    end.addEventListener('abort', () => void changes.return(undefined).catch(() => {}), { once: true }); // it ends anyway
    return {
      [Symbol.asyncIterator]: () => {
        const events = toEnvironmentChanges(changes);
        const stop = () => {
          over.abort();
          return events.return(undefined);
        };
        return { next: () => events.next(), return: stop };
      },
    };
  }
}

async function* toEnvironmentChanges(
  changes: AsyncGenerator<FileChange>,
): AsyncGenerator<EnvironmentFileChange, undefined> {
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

const absolute = z
  .string()
  .max(4096)
  .refine((path) => path.startsWith('/') && !path.includes('\0') && !path.split('/').includes('..'), {
    message: 'must be an absolute path',
  });

export const MappedFolder = z.strictObject({
  /** Path on the host, with links resolved. */
  host: absolute,
  /** Path in the environment. */
  inside: absolute,
  /** The identity that the folder had when the environment was created. */
  id: FolderId.optional(),
});
export type MappedFolder = z.infer<typeof MappedFolder>;

export const EnvironmentFolders = z.strictObject({
  workspace: MappedFolder,
  home: MappedFolder,
  /** The folder of the runner and the agents' programs, as a path in the environment. */
  app: absolute,
  bundledMcp: absolute,
});
export type EnvironmentFolders = z.infer<typeof EnvironmentFolders>;

function basePathsOf({ workspace, home, app, bundledMcp }: EnvironmentFolders): BasePaths {
  return { APP_DIR: app, WORKSPACE_DIR: workspace.inside, HOME_DIR: home.inside, BUNDLED_MCP_DIR: bundledMcp };
}

/** The folder on the host, with all links resolved. */
export function realFolder(path: string): string {
  try {
    const real = realpathSync(path);
    if (statSync(real).isDirectory()) return real;
  } catch (cause) {
    throw new CellaError('INVALID_OPTIONS', `There is no folder ${path}.`, { cause });
  }
  throw new CellaError('INVALID_OPTIONS', `${path} is not a folder.`);
}

/**
 * The identity of a folder of a handle. Throws `FOLDER_REPLACED` if code has since replaced it, or a folder above it: a link there
 * would lead the host anywhere.
 */
export function sameFolder({ host, id }: MappedFolder): FolderId {
  if (realFolder(host) !== host) throw folderReplaced(host);
  return checkFolderId(host, id);
}

/** How the host reaches the environment's folders. */
export interface EnvironmentRoots {
  readonly workspace: FilesRoot;
  readonly home: FilesRoot;
}

/** A folder on the host, and a path in it. */
interface FileLocation {
  readonly root: FilesRoot;
  readonly path: string;
}

/** `path` is absolute as seen in the environment, or relative to the workspace. Links are checked when the file is opened. */
function locateFile(folders: EnvironmentFolders, roots: EnvironmentRoots, path: string): FileLocation {
  const at = folderOf(folders, path);
  return { root: at.folder === folders.workspace ? roots.workspace : roots.home, path: at.parts.join('/') };
}

/** The absolute path in the environment. */
export function pathInside(folders: EnvironmentFolders, path: string): string {
  const at = folderOf(folders, path);
  return [at.folder.inside, ...at.parts].join('/');
}

function folderOf({ workspace, home }: EnvironmentFolders, path: string): { folder: MappedFolder; parts: string[] } {
  if (!path.startsWith('/')) return { folder: workspace, parts: partsOf(path) };
  // Compares whole names: /workspace-evil is not in /workspace. If one folder contains the other, the inner one wins.
  const [folder] = [workspace, home]
    .filter(({ inside }) => path === inside || path.startsWith(`${inside}/`))
    .sort((one, other) => other.inside.length - one.inside.length);
  if (!folder) throw invalidPath(path, 'it is in no folder of the environment');
  return { folder, parts: partsOf(path.slice(folder.inside.length + 1)) };
}

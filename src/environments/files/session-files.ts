/** Files below one folder, reached with exactly the rights of the code that works there. */

import type { FileHandle } from 'node:fs/promises';
import type { FolderId } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileInfo } from '../../protocol/workspace-models.ts';
import type { FileRights } from '../../sandbox/sandbox-user.ts';
import { BrokeredFiles } from './brokered-files.ts';
import { FilesInTurn } from './file-limits.ts';
import { HostFiles } from './host-files.ts';

export interface FilesRoot {
  /** Path on the host, with links resolved. */
  readonly path: string;
  /** The identity that the folder must have. */
  readonly id?: FolderId | undefined;
  /** The folder's path as the code sees it: absolute links that begin with it stay inside. */
  readonly inside?: string | undefined;
  /** If omitted, uses the rights of this process, which the code has too. */
  readonly rights?: FileRights | undefined;
  /** The user that the operations count for; each may have a few at a time. The default: `askerOf` (file-limits.ts). */
  readonly whose?: string | undefined;
}

export interface Listing {
  readonly files: readonly FileInfo[];
  /** The length of the names in JSON. */
  readonly bytes: number;
  /** Whether the folder has more entries than fit in the listing. */
  readonly cut: boolean;
}

/** A file that becomes visible with `commit`. */
export interface NewFile {
  readonly file: FileHandle;
  commit(): Promise<FileInfo>;
  discard(): Promise<void>;
}

/**
 * Paths are relative to the folder, without `..`. Links that stay inside are followed; links that lead out fail with EXDEV. The
 * last name of a path that is changed, moved or removed is never followed.
 */
export interface Files {
  /** `mostBytes` limits the length of the names in JSON. */
  list(path: string, most: number, mostBytes?: number): Promise<Listing>;
  entry(path: string): Promise<FileInfo>;
  /** Opens a regular file. The caller closes it. */
  read(path: string): Promise<{ readonly info: FileInfo; readonly file: FileHandle }>;
  /** Also creates missing parent folders. */
  create(path: string): Promise<NewFile>;
  makeFolder(path: string): Promise<void>;
  move(from: string, to: string, replace: boolean): Promise<FileInfo>;
  remove(path: string, recursive: boolean): Promise<void>;
  /** Opens a readable folder. The caller closes it. */
  folder(path: string): Promise<FileHandle>;
}

export function openFiles(root: FilesRoot): FilesInTurn {
  if (process.platform !== 'linux') {
    throw new CellaError('CAPABILITY_MISSING', 'Files of a session are available only on Linux.');
  }
  return new FilesInTurn(root.rights ? new BrokeredFiles(root, root.rights) : new HostFiles(root), root);
}

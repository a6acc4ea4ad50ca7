/** Files below one folder, reached with the rights of the code that works there: no more and no less. */

import type { FileHandle } from 'node:fs/promises';
import type { FolderId } from '../../protocol/environment-spec.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileRights } from '../../sandbox/spec.ts';
import { BrokeredFiles } from './brokered-files.ts';
import type { FileKind } from './file-paths.ts';
import { HostFiles } from './host-files.ts';

export interface FilesRoot {
  /** On the host, without links. */
  readonly path: string;
  /** Which folder it must be. */
  readonly id?: FolderId | undefined;
  /** What the code calls it: an absolute link that begins with this stays inside. */
  readonly inside?: string | undefined;
  /** Without them, the rights of this process: those that the code has too. */
  readonly rights?: FileRights | undefined;
  /** Who is asking: each has a few works under way at a time. Without it, see `askerOf` (turns.ts). */
  readonly whose?: string | undefined;
}

export interface SessionFileInfo {
  readonly name: string;
  readonly kind: FileKind;
  readonly size: number;
  /** Milliseconds since 1970. */
  readonly modifiedAt: number;
}

export interface Listing {
  readonly files: readonly SessionFileInfo[];
  /** Of their names, as JSON has them. */
  readonly bytes: number;
  /** Where there are more than a listing holds. */
  readonly cut: boolean;
}

/** A file that becomes visible with `commit`. */
export interface NewFile {
  readonly file: FileHandle;
  commit(): Promise<SessionFileInfo>;
  discard(): Promise<void>;
}

/**
 * Paths are relative to the folder, without `..`. Links in them that stay inside are followed, those that leave it are
 * EXDEV. The last name of a path that is changed, moved or removed is not followed.
 */
export interface Files {
  /** `mostBytes`: of names, as JSON has them. */
  list(path: string, most: number, mostBytes?: number): Promise<Listing>;
  entry(path: string): Promise<SessionFileInfo>;
  /** A regular file. The caller closes it. */
  read(path: string): Promise<{ readonly info: SessionFileInfo; readonly file: FileHandle }>;
  /** With the folders on the way that are missing. */
  create(path: string): Promise<NewFile>;
  makeFolder(path: string): Promise<void>;
  move(from: string, to: string, replace: boolean): Promise<SessionFileInfo>;
  remove(path: string, recursive: boolean): Promise<void>;
  /** A folder that may be read, held open. The caller closes it. */
  folder(path: string): Promise<FileHandle>;
}

export function openFiles(root: FilesRoot): Files {
  if (process.platform !== 'linux') {
    throw new CellaError('CAPABILITY_MISSING', 'Files of a session can be reached on Linux only.');
  }
  return root.rights ? new BrokeredFiles(root, root.rights) : new HostFiles(root);
}

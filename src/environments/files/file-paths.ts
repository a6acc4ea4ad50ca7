/** Workspace paths as clients write them, and errors about them. */

import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FileInfo } from '../../protocol/workspace-models.ts';

const MOST_PARTS = 64;
/** Marks an error in its details: a path that leads out of the workspace is reported to the operator. */
const leadsOut = { details: { refused: 'path' } } as const;

/** Failures of the disk or the machine by system error code. The request is not at fault. */
const diskFailures: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only. Mount it for writing',
  EIO: 'the disk reports an error. Check the system log of the server',
  ESHUTDOWN: 'the file system was shut down after an error. Check the system log of the server',
  ESTALE: 'the file system is gone. Mount it again',
  EMFILE: 'the server has too many files open. Raise its limit (ulimit -n)',
  ENFILE: 'the system has too many files open. Raise its limit',
};

/** The names on the path, including the last; empty for the workspace itself. */
export function partsOf(path: string): string[] {
  if (path.includes('\0')) throw invalidPath(path, 'it holds a null byte');
  if (!path.isWellFormed()) throw invalidPath(path, 'it is not text');
  if (path.startsWith('/')) throw invalidPath(path, 'it must be relative to the workspace', leadsOut);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw invalidPath(path, 'it leads out of its folder', leadsOut);
  if (parts.length > MOST_PARTS) throw invalidPath(path, `it is more than ${MOST_PARTS} folders deep`);
  if (parts.some((part) => Buffer.byteLength(part) > 255)) throw invalidPath(path, 'a name in it is too long');
  return parts;
}

export function invalidPath(
  path: string,
  reason: string,
  facts: { readonly advice?: string; readonly details?: Record<string, unknown> } = {},
): CellaError {
  return new CellaError('INVALID_REQUEST', `${JSON.stringify(path.slice(0, 200))} cannot be used: ${reason}.`, facts);
}

export function missing(path: string): CellaError {
  return new CellaError('NOT_FOUND', `There is no ${JSON.stringify(path.slice(0, 200))} in the workspace.`);
}

/** An error with a system code. ENOFILE is Cella's own code, for something that is neither a file nor a folder. */
export function errorOf(code: string, message = code): Error {
  return Object.assign(new Error(message), { code });
}

export function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && !(error instanceof CellaError) && 'code' in error && error.code === code;
}

/** Whether nothing has that path: it is missing, below a file, or below a link that leads out. */
export function isAbsence(error: unknown): boolean {
  return ['ENOENT', 'ENOTDIR', 'ELOOP', 'EXDEV'].some((code) => isCode(error, code));
}

/** The session's folder is not the one that it was created with. */
export function folderReplaced(what: string, cause?: unknown): CellaError {
  return new CellaError('FOLDER_REPLACED', `A folder was replaced by another folder or a link: ${what}.`, {
    cause,
    ...leadsOut,
  });
}

/** Converts an operating system error into an error for the caller. */
export function toFileError(path: string, error: unknown): unknown {
  if (error instanceof CellaError) return error;
  const code = systemCode(error);
  if (code === 'ENOENT') return missing(path);
  if (code === 'EXDEV') return invalidPath(path, 'it leads out of its folder', leadsOut);
  if (code === 'ELOOP') return invalidPath(path, 'it leads through too many links, or they lead nowhere');
  if (code === 'ENOTDIR') return invalidPath(path, 'a part of it is not a folder');
  if (code === 'EISDIR') return invalidPath(path, 'it is a folder');
  if (code === 'ENXIO' || code === 'ENOFILE') return invalidPath(path, 'it is not a file');
  // The session's code would get the same error.
  if (code === 'EACCES' || code === 'EPERM') return invalidPath(path, 'nothing listens on it');
  if (code === 'EOVERFLOW') return invalidPath(path, 'it belongs to another user');
  if (code === 'EBUSY') return invalidPath(path, 'something is mounted there');
  if (code === 'ENOTEMPTY') {
    const advice = 'Empty it first, or delete it with `recursive=true`.';
    return invalidPath(path, 'the folder is not empty', { advice });
  }
  if (code === 'EAGAIN') {
    const message = `${JSON.stringify(path.slice(0, 200))} cannot be found while code keeps renaming folders.`;
    return new CellaError('RATE_LIMITED', message, {
      advice: 'Try again in a second, or when the code has ended.',
      details: { retryAfterMs: 1000 },
    });
  }
  if (code === 'EEXIST') return new CellaError('NAME_TAKEN', `${JSON.stringify(path.slice(0, 200))} is there already.`);
  if (code === 'ENAMETOOLONG') return invalidPath(path, 'a name in it is too long');
  const reason = typeof code === 'string' ? diskFailures[code] : undefined;
  if (reason === undefined) return error;
  const message = `Cannot use ${JSON.stringify(path.slice(0, 200))}: ${reason} (${code}).`;
  return new CellaError('STORAGE_FAILED', message, { cause: error });
}

interface Entry {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

export function kindOf(entry: Entry): FileInfo['kind'] {
  return entry.isFile() ? 'file' : entry.isDirectory() ? 'folder' : entry.isSymbolicLink() ? 'link' : 'other';
}

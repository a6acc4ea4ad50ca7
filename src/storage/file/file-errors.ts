/** Turns errors of the file system and of SQLite into ones that name the file, the reason and what to do. */

import { messageOf, systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';

const reasons: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full. Make room on it and try again',
  EDQUOT: 'the disk quota is used up. Make room and try again',
  EFBIG: 'the file would be larger than this process may write (ulimit -f). Raise the limit',
  EACCES: 'this user may not. Give it the right, or use another folder',
  EPERM: 'this user may not. Give it the right, or use another folder',
  EROFS: 'the file system is read-only. Use another folder, or mount it for writing',
  ENOTDIR: 'a part of the path is a file, not a folder. Use another folder',
  EEXIST: 'something else has that name. Use another folder, or move it away',
  ENAMETOOLONG: 'the path is too long. Use a shorter folder',
  ENOENT: 'it is missing',
  EMFILE: 'this process has too many files open. Raise its limit (ulimit -n)',
  ENFILE: 'the system has too many files open. Raise its limit',
  EIO: 'the disk reports an error. Look at the system’s log, and bring the data to another disk',
};

const damagedDatabase =
  'it is damaged. Checkpoints and the files of tools, skills and artifacts are not affected. Bring back a copy of it, or ' +
  'move it away with its -wal and -shm files: records, event logs, transcripts, deps, documents and locks then start empty';

/** Messages by SQLite's primary result code. */
const databaseReasons: Readonly<Record<number, readonly [name: string, reason: string]>> = {
  3: ['SQLITE_PERM', reasons.EACCES as string],
  5: ['SQLITE_BUSY', 'another process has been writing to it for too long. End or continue that process'],
  8: ['SQLITE_READONLY', 'it cannot be written to. Give this user the right, or use another folder'],
  10: ['SQLITE_IOERR', 'the disk reports an error, or this process may not write more (ulimit -f)'],
  11: ['SQLITE_CORRUPT', damagedDatabase],
  13: ['SQLITE_FULL', reasons.ENOSPC as string],
  14: ['SQLITE_CANTOPEN', 'it cannot be opened. Look at its rights and those of its folder'],
  26: ['SQLITE_NOTADB', damagedDatabase],
};

/** `action` completes "cannot …", as in `write`. */
export function storageFailed(action: string, path: string, cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause;
  const { code, reason } = explain(cause);
  return new CellaError('STORAGE_FAILED', `Cannot ${action} ${path}: ${reason}${code ? ` (${code})` : ''}.`, {
    cause,
    details: { path, ...(code ? { reason: code } : {}) },
  });
}

/** The path no longer leads to the open file, so writes would be lost. */
export function storageMoved(path: string): CellaError {
  const message = `Cannot write to ${path}: it was deleted, moved or replaced while it was in use. Nothing is written from now on.`;
  const advice = 'Put it back as it was, or stop every process that uses it, bring back a copy, and start again.';
  return new CellaError('STORAGE_FAILED', message, { advice, details: { path, reason: 'MOVED' } });
}

/** Runs work on a path and converts its errors to STORAGE_FAILED. */
export async function guarded<T>(action: string, path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    throw storageFailed(action, path, cause);
  }
}

export function explain(cause: unknown): { code: string | undefined; reason: string } {
  const database = sqliteCode(cause);
  if (database !== undefined) {
    const [name, reason] = databaseReasons[database] ?? [`SQLite ${database}`, messageOf(cause)];
    return { code: name, reason };
  }
  const code = systemCode(cause);
  return { code, reason: (code && reasons[code]) || messageOf(cause) };
}

const diskCodes = ['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE'];

/** The reason, if the disk or a limit of this machine caused the error; otherwise undefined. */
export function diskReason(cause: unknown): string | undefined {
  const code = systemCode(cause);
  return code !== undefined && diskCodes.includes(code) ? `${reasons[code]} (${code})` : undefined;
}

/** SQLite's primary result code, if the error is SQLite's. */
export function sqliteCode(error: unknown): number | undefined {
  if (systemCode(error) !== 'ERR_SQLITE_ERROR') return undefined;
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode & 0xff : 0;
}

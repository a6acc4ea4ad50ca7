/**
 * The file with the master key: for its user alone, made once, and never reached through a link. The first line is the
 * key in use; those below it still open what was encrypted before a rotation.
 */

import { randomBytes } from 'node:crypto';
import { constants, type FileHandle, link, open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { makeFolder, syncFolder, writeFileDurably } from '../../storage/file/durable-files.ts';
import { guarded, systemCode } from '../../storage/file/file-errors.ts';
import { KEY_BYTES } from './seal.ts';

const MOST_BYTES = 10_000;

export const keyFilePath = (dataDir: string): string => join(dataDir, 'master-key');

/** Makes one where there is none. Of several processes at once, one makes it and all read the same. */
export async function readOrMakeKeys(path: string): Promise<Buffer[]> {
  const there = await readKeys(path);
  if (there) return there;
  await guarded('make', dirname(path), () => makeFolder(dirname(path)));
  await withFresh(path, [newKey()], async (fresh) => {
    try {
      // Unlike a rename it never takes the place of one that somebody else has made meanwhile.
      await link(fresh, path);
    } catch (error) {
      if (systemCode(error) !== 'EEXIST') throw error;
    }
  });
  const made = await readKeys(path);
  if (made) return made;
  throw unusable(path, 'it went away as soon as it was made');
}

export async function replaceKeys(path: string, keys: readonly Buffer[]): Promise<void> {
  await withFresh(path, keys, (fresh) => rename(fresh, path));
}

export const newKey = (): Buffer => randomBytes(KEY_BYTES);

/** Undefined where there is no file. One that cannot be used is never replaced: it may be all that opens the rest. */
export async function readKeys(path: string): Promise<Buffer[] | undefined> {
  const file = await openFile(path);
  if (!file) return undefined;
  await using held = file;
  const { mode, uid, size } = await held.stat();
  if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw unusable(path, 'it is no file');
  if (uid !== process.geteuid?.()) throw unusable(path, `it belongs to another user (${uid})`);
  if ((mode & 0o077) !== 0) throw unusable(path, `others may read it; run: chmod 600 ${path}`);
  if (size > MOST_BYTES) throw unusable(path, 'it is too large');
  const keys = (await held.readFile('utf8')).split('\n').filter((line) => line.trim() !== '');
  const bytes = keys.map((line) => parseKey(line.trim()));
  const good = bytes.filter((key) => key !== undefined);
  if (good.length === 0 || good.length < bytes.length) throw unusable(path, 'it holds something that is no key');
  return good;
}

/** 32 bytes as base64, base64url or hex; undefined where it is anything else. */
export function parseKey(text: string): Buffer | undefined {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex');
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(text)) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === KEY_BYTES ? bytes : undefined;
}

async function withFresh(path: string, keys: readonly Buffer[], put: (fresh: string) => Promise<void>): Promise<void> {
  const fresh = `${path}.${process.pid}-${randomBytes(6).toString('hex')}`;
  await guarded('write', path, async () => {
    try {
      await writeFileDurably(fresh, keys.map((key) => `${key.toString('base64')}\n`).join(''));
      await put(fresh);
      await syncFolder(dirname(path));
    } finally {
      await rm(fresh, { force: true });
    }
  });
}

async function openFile(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') throw unusable(path, 'it is a link');
    return guarded('read', path, () => Promise.reject(error));
  }
}

function unusable(path: string, why: string): CellaError {
  return new CellaError('CREDENTIAL_UNREADABLE', `The master key in ${path} cannot be used: ${why}.`, {
    details: { path },
    advice: 'Mend the file or bring back a copy of it, or give the key in CELLA_MASTER_KEY. See docs/credentials.md.',
  });
}

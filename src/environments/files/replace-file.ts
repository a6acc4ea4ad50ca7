/** Writes a file whole: what had its name before stays until the last byte is there, and a link is replaced, not followed. */

import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { lstat, open, rename, unlink } from 'node:fs/promises';
import { CellaError } from '../../protocol/errors.ts';
import type { HeldFolder } from './held-folder.ts';
import { refused } from './path.ts';

const MODE = 0o644;
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

export interface Content {
  /** As the caller calls it: for errors. */
  readonly path: string;
  readonly chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
  readonly limitBytes?: number;
}

export async function replaceFile(
  folder: HeldFolder,
  name: string,
  { path, chunks, limitBytes = Number.MAX_SAFE_INTEGER }: Content,
): Promise<Stats> {
  const there = await lstat(folder.path(name)).catch(() => undefined); // nothing there is well
  if (there && !there.isFile() && !there.isSymbolicLink()) throw refused(path, 'it is no file');
  const partial = folder.path(`.${randomUUID()}.part`);
  await using file = await open(partial, CREATE, MODE);
  try {
    let size = 0;
    for await (const chunk of chunks) {
      size += chunk.byteLength;
      if (size > limitBytes) {
        throw new CellaError('TOO_LARGE', `The file is larger than ${limitBytes} bytes.`, { details: { limitBytes } });
      }
      await file.writeFile(chunk);
    }
    await folder.adopt(file, MODE);
    await rename(partial, folder.path(name));
    return await file.stat();
  } catch (error) {
    await unlink(partial).catch(() => {}); // the first failure is the one to tell
    throw error;
  }
}

/** Files of the session's home, which code of the kernel writes to: what is no file there, has no end or leads elsewhere is not touched. */

import { constants, mkdir, open, readlink, realpath, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { checkTranscriptLength } from '../../protocol/agent/transcript-limit.ts';
import { CellaError } from '../../protocol/errors.ts';

/** TOO_LARGE past `most` bytes of all of them together. */
export async function readTexts(homeDir: string, paths: readonly string[], most: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  for (const path of paths) {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(told);
    const facts = await file.stat();
    if (!facts.isFile()) throw elsewhere(path);
    // Folders above it may be links too. Where the system tells where the open file lies, that cannot change any more.
    const real = await readlink(`/proc/self/fd/${file.fd}`).catch(() => realpath(path));
    await checkInside(homeDir, real, path);
    size += facts.size;
    checkTranscriptLength(basename(path), size, most);
    // One that was empty a moment ago may grow for as long as it is read.
    texts.push(facts.size === 0 ? '' : await file.readFile('utf8'));
  }
  return texts;
}

/** A reader sees what was there or the new text, never half of it. */
export async function replaceText(homeDir: string, path: string, text: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true });
  await checkFolder(homeDir, folder);
  const part = join(folder, `${basename(path)}.part`);
  await rm(part, { force: true });
  try {
    await writeFile(part, text, { flag: 'wx' });
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

export async function checkFolder(homeDir: string, folder: string): Promise<void> {
  await checkInside(homeDir, await realpath(folder), folder);
}

async function checkInside(homeDir: string, real: string, path: string): Promise<void> {
  if (!real.startsWith(`${await realpath(homeDir)}${sep}`)) throw elsewhere(path);
}

export const elsewhere = (path: string): CellaError =>
  new CellaError('CONVERSATION_NOT_FOUND', `${path} is no file of the session's home.`);

function told(error: NodeJS.ErrnoException & { path?: string }): never {
  throw error.code === 'ELOOP' ? elsewhere(error.path ?? '') : error;
}

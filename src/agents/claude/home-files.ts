/** Files of the session's home, which code of the kernel writes to: what is no file there, has no end or leads elsewhere is not touched. */

import { constants, open, readlink, realpath, rename, rm } from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { checkTranscriptLength } from '../../protocol/turn.ts';
import type { AgentSetup } from '../contract.ts';
import { type HeldFolder, holdFolder } from './held-folder.ts';

/** The folder of conversations in the program's configuration folder. */
export const CONVERSATIONS = 'projects';
const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** Where conversations are kept between turns. */
export function conversationsDir({ homeDir }: Pick<AgentSetup, 'homeDir'>): string {
  return join(homeDir, '.claude', CONVERSATIONS);
}

/** TOO_LARGE past `most` bytes of all of them together. */
export async function readTexts(homeDir: string, paths: readonly string[], most: number): Promise<string[]> {
  const texts: string[] = [];
  let size = 0;
  for (const path of paths) {
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW).catch(
      (error) => told(error, path),
    );
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
  await using folder = await hold(homeDir, dirname(path));
  const [part, whole] = [folder.path(`${basename(path)}.part`), folder.path(basename(path))];
  await rm(part, { force: true });
  try {
    {
      await using file = await open(part, CREATE, 0o666);
      await file.writeFile(text);
    }
    await rename(part, whole);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

/** Makes it where it is missing, and never through a link. */
export async function makeFolder(homeDir: string, folder: string): Promise<void> {
  await using _held = await hold(homeDir, folder);
}

async function hold(homeDir: string, folder: string): Promise<HeldFolder> {
  return await holdFolder(homeDir, namesBelow(homeDir, folder)).catch((error) => told(error, folder));
}

function namesBelow(homeDir: string, folder: string): string[] {
  const names = relative(homeDir, folder).split(sep);
  if (names.some((name) => name === '' || name === '..')) throw elsewhere(folder);
  return names;
}

export async function checkFolder(homeDir: string, folder: string): Promise<void> {
  await checkInside(homeDir, await realpath(folder), folder);
}

async function checkInside(homeDir: string, real: string, path: string): Promise<void> {
  if (!real.startsWith(`${await realpath(homeDir)}${sep}`)) throw elsewhere(path);
}

export const elsewhere = (path: string): CellaError =>
  new CellaError('CONVERSATION_NOT_FOUND', `${path} is no file of the session's home.`);

/** Of a folder, the system says of a link that it is none. */
function told(error: NodeJS.ErrnoException, path: string): never {
  throw error.code === 'ELOOP' || error.code === 'ENOTDIR' ? elsewhere(path) : error;
}

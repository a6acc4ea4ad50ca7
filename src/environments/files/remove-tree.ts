/** Removes folders, in the background if it takes long. Code cannot make it follow links or run out of memory. */

import { hash, randomUUID } from 'node:crypto';
import { opendir, realpath, rename, rmdir, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { settlesWithin } from '../../lib/deadline.ts';
import { entriesOf, removeOwnTree } from '../../lib/large-folders.ts';
import { systemCode } from '../../lib/values.ts';
import { invalidPath } from './file-paths.ts';
import { OpenDirectory } from './open-directory.ts';

/** Prefix of a discarded folder's name, followed by a hash of its owner and a random id. */
const DISCARDED = '.removed-';
/** Most folders are removed within this time. */
const WAIT_MS = 2000;
const REMOVALS_AT_ONCE = 2;
const AGAIN_MS = 60_000;
const LONGEST_AGAIN_MS = 3_600_000;

/** Called after each failed attempt. Cella retries later. */
export type OnFailure = (path: string, error: unknown) => void;

/** Succeeds if the folder does not exist. */
export async function removeFolder(path: string): Promise<void> {
  // Other systems cannot hold folders open by path, and there code runs only in containers.
  if (process.platform !== 'linux') return await removeOwnTree(path);
  try {
    await using parent = await OpenDirectory.root({ path: await realpath(dirname(path)) });
    await removeTree(parent, Buffer.from(basename(path)));
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/**
 * Renames the folder so that its name is free at once. A slow removal continues in the background and counts for `owner` until
 * it ends.
 */
export async function discardFolder(path: string, owner: string, onFailure: OnFailure): Promise<void> {
  const discarded = join(dirname(path), `${discardedOf(owner)}${randomUUID()}`);
  try {
    await rename(path, discarded);
  } catch (error) {
    if (isGone(error)) return;
    throw error;
  }
  await settlesWithin(removal(discarded, onFailure), WAIT_MS);
}

/** Discarded folders of the owner that still exist. */
export async function discardedFolders(parent: string, owner: string): Promise<string[]> {
  const mine = discardedOf(owner);
  return (await namesIn(parent)).filter((name) => name.startsWith(mine)).map((name) => join(parent, name));
}

/** Continues the removals that an earlier process did not finish. Resolves like `discardFolder`. */
export async function removeDiscarded(parent: string, onFailure: OnFailure): Promise<void> {
  const left = (await namesIn(parent)).filter((name) => name.startsWith(DISCARDED));
  await settlesWithin(Promise.all(left.map((name) => removal(join(parent, name), onFailure))), WAIT_MS);
}

const discardedOf = (owner: string): string => `${DISCARDED}${hash('sha256', owner).slice(0, 16)}-`;

async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const { name } of entriesOf(folder)) names.push(name);
  } catch (error) {
    if (!isGone(error)) throw error;
  }
  return names;
}

interface Removal {
  readonly removed: Promise<void>;
  /** Starts the next attempt without waiting. */
  readonly again: () => void;
}

/** Removals by path. */
const removals = new Map<string, Removal>();
/** Each owner has one removal at a time, so that a large backlog of one owner does not delay the others. */
const waiting: { readonly owner: string; readonly begin: () => void }[] = [];
const running = new Set<string>();

/** Resolves when the folder is gone, however long that takes. */
function removal(path: string, onFailure: OnFailure): Promise<void> {
  const known = removals.get(path);
  known?.again();
  if (known) return known.removed;
  const attempts = { next: () => {} };
  const removed = removeWithRetries(path, onFailure, attempts).finally(() => removals.delete(path));
  removals.set(path, { removed, again: () => attempts.next() });
  return removed;
}

function beginNext(): void {
  if (running.size >= REMOVALS_AT_ONCE) return;
  const at = waiting.findIndex(({ owner }) => !running.has(owner));
  const [next] = at < 0 ? [] : waiting.splice(at, 1);
  if (!next) return;
  running.add(next.owner);
  next.begin();
}

async function removeWithRetries(path: string, onFailure: OnFailure, attempts: { next: () => void }): Promise<void> {
  const owner = basename(path).slice(0, discardedOf('').length);
  for (let againMs = AGAIN_MS; ; againMs = Math.min(2 * againMs, LONGEST_AGAIN_MS)) {
    await new Promise<void>((begin) => {
      waiting.push({ owner, begin });
      beginNext();
    });
    try {
      return await removeFolder(path);
    } catch (error) {
      onFailure(path, error);
    } finally {
      running.delete(owner);
      beginNext();
    }
    await new Promise<void>((resolve) => {
      attempts.next = resolve;
      setTimeout(resolve, againMs).unref();
    });
  }
}

/** Limit for nested folders that cannot be moved up: each is held open with all its parents. */
const MOST_OPEN = 64;
const ENTRIES_AT_ONCE = 256;

/** `name` is bytes because code can create names that are not valid text. */
export async function removeTree(parent: OpenDirectory, name: Buffer, held = 0): Promise<void> {
  if (held > MOST_OPEN) throw invalidPath(name.toString(), 'folders in it are too deep');
  {
    if (await isRemoved(parent, name, true)) return;
    await using top = await parent.unlocked(name);
    while ((await removeLevel(top, held)) > 0);
  }
  await rmdir(parent.bytes(name));
}

/** Whether the error says that something does not exist. */
export function isGone(error: unknown): boolean {
  return systemCode(error) === 'ENOENT';
}

/** Returns how many subfolders were moved up into `top`. */
async function removeLevel(top: OpenDirectory, held: number): Promise<number> {
  let raised = 0;
  for await (const { name, isFolder } of entriesIn(top)) {
    if (!(await isRemoved(top, name, isFolder))) raised += await removeSubfolder(top, name, held);
  }
  return raised;
}

async function removeSubfolder(top: OpenDirectory, name: Buffer, held: number): Promise<number> {
  let raised = 0;
  {
    await using folder = await top.unlocked(name);
    for await (const { name: inner, isFolder } of entriesIn(folder)) {
      if (await isRemoved(folder, inner, isFolder)) continue;
      if (await isRaised(folder, inner, top)) raised++;
      // Some file systems cannot move folders that came with an image.
      else await removeTree(folder, inner, held + 1);
    }
  }
  await rmdir(top.bytes(name));
  return raised;
}

/** Moving a folder requires write permission on the folder itself, so unlocks it and retries. */
async function isRaised(folder: OpenDirectory, name: Buffer, top: OpenDirectory): Promise<boolean> {
  const raise = () => succeeds(rename(folder.bytes(name), top.path(`.removed-${randomUUID()}`)));
  if (await raise()) return true;
  await using _unlocked = await folder.unlocked(name);
  return await raise();
}

/** Latin-1 maps each byte of a name to one character. */
async function* entriesIn(folder: OpenDirectory): AsyncIterable<{ readonly name: Buffer; readonly isFolder: boolean }> {
  for await (const entry of await opendir(folder.path(), { bufferSize: ENTRIES_AT_ONCE, encoding: 'latin1' })) {
    yield { name: Buffer.from(entry.name, 'latin1'), isFolder: entry.isDirectory() };
  }
}

/** False for a folder that is not empty. */
async function isRemoved(folder: OpenDirectory, name: Buffer, isFolder: boolean): Promise<boolean> {
  const path = folder.bytes(name);
  if (isFolder) {
    return await rmdir(path).then(
      () => true,
      (error) => {
        // A mount point reports EBUSY and is not entered.
        if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(error.code)) throw error;
        return error.code === 'ENOENT';
      },
    );
  }
  await unlink(path).catch((error) => {
    if (!isGone(error)) throw error; // another process may have removed it
  });
  return true;
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

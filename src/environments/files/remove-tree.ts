/** Removes folders, in the background if it takes long. Code cannot make it follow links or run out of memory. */

import { hash, randomUUID } from 'node:crypto';
import { opendir, readdir, realpath, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { systemCode } from '../../lib/errno.ts';
import { invalidPath } from './file-paths.ts';
import { OpenDirectory } from './open-directory.ts';

/** How a folder is called from when it is discarded until it is gone: this, whose it was, and a name of its own. */
const DISCARDED = '.removed-';
/** Most folders are gone by then. */
const WAIT_MS = 2000;
const REMOVALS_AT_ONCE = 2;
const AGAIN_MS = 60_000;
const LONGEST_AGAIN_MS = 3_600_000;

/** Told of each attempt that has failed. It is tried again later. */
export type OnFailure = (path: string, error: unknown) => void;

/** Nothing there is well. */
export async function removeFolder(path: string): Promise<void> {
  // Elsewhere folders cannot be held, and code runs in containers alone.
  if (process.platform !== 'linux') return await rm(path, { recursive: true, force: true });
  try {
    await using parent = await OpenDirectory.root({ path: await realpath(dirname(path)) });
    await removeTree(parent, Buffer.from(basename(path)));
  } catch (error) {
    if (!isGone(error)) throw error;
  }
}

/** Nobody finds it by its name any more. What takes long to remove goes on in the background; it is `owner`'s until then. */
export async function discardFolder(path: string, owner: string, onFailure: OnFailure): Promise<void> {
  const discarded = join(dirname(path), `${discardedOf(owner)}${randomUUID()}`);
  try {
    await rename(path, discarded);
  } catch (error) {
    if (isGone(error)) return;
    throw error;
  }
  await Promise.race([removal(discarded, onFailure), delay(WAIT_MS, undefined, { ref: false })]);
}

/** Those that are not gone yet. */
export async function discardedFolders(parent: string, owner: string): Promise<string[]> {
  const mine = discardedOf(owner);
  return (await namesIn(parent)).filter((name) => name.startsWith(mine)).map((name) => join(parent, name));
}

/** Goes on with what an earlier process has not come to the end of. Resolves as `discardFolder` does. */
export async function removeDiscarded(parent: string, onFailure: OnFailure): Promise<void> {
  const left = (await namesIn(parent)).filter((name) => name.startsWith(DISCARDED));
  const removed = Promise.all(left.map((name) => removal(join(parent, name), onFailure)));
  await Promise.race([removed, delay(WAIT_MS, undefined, { ref: false })]);
}

const discardedOf = (owner: string): string => `${DISCARDED}${hash('sha256', owner).slice(0, 16)}-`;

async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch((error) => {
    if (isGone(error)) return [];
    throw error;
  });
}

interface Removal {
  readonly removed: Promise<void>;
  /** Ends the wait for another attempt. */
  readonly again: () => void;
}

/** By path. */
const removals = new Map<string, Removal>();
/** Each owner has one at a time: what others have discarded counts for them until it is gone, however much this one has. */
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

/** Of folders that cannot be brought up, each of which is held open with those above it. */
const MOST_OPEN = 64;
const ENTRIES_AT_ONCE = 256;

/** `name` is bytes: code may have given names that are no text. */
export async function removeTree(parent: OpenDirectory, name: Buffer, held = 0): Promise<void> {
  if (held > MOST_OPEN) throw invalidPath(name.toString(), 'folders in it are too deep');
  {
    if (await isRemoved(parent, name, true)) return;
    await using top = await parent.unlocked(name);
    while ((await removeLevel(top, held)) > 0);
  }
  await rmdir(parent.bytes(name));
}

/** Whether it says that something is not there. */
export function isGone(error: unknown): boolean {
  return systemCode(error) === 'ENOENT';
}

/** Gives how many folders have come into `top` in place of what was in it. */
async function removeLevel(top: OpenDirectory, held: number): Promise<number> {
  let raised = 0;
  for await (const { name, isFolder } of entriesOf(top)) {
    if (!(await isRemoved(top, name, isFolder))) raised += await removeSubfolder(top, name, held);
  }
  return raised;
}

async function removeSubfolder(top: OpenDirectory, name: Buffer, held: number): Promise<number> {
  let raised = 0;
  {
    await using folder = await top.unlocked(name);
    for await (const { name: inner, isFolder } of entriesOf(folder)) {
      if (await isRemoved(folder, inner, isFolder)) continue;
      if (await isRaised(folder, inner, top)) raised++;
      // Some file systems cannot do that with what came with an image.
      else await removeTree(folder, inner, held + 1);
    }
  }
  await rmdir(top.bytes(name));
  return raised;
}

/** A folder that its owner may not write to is not moved either. */
async function isRaised(folder: OpenDirectory, name: Buffer, top: OpenDirectory): Promise<boolean> {
  const raise = () => succeeds(rename(folder.bytes(name), top.path(`.removed-${randomUUID()}`)));
  if (await raise()) return true;
  await using _unlocked = await folder.unlocked(name);
  return await raise();
}

/** Every byte of a name is a letter of Latin-1. */
async function* entriesOf(folder: OpenDirectory): AsyncIterable<{ readonly name: Buffer; readonly isFolder: boolean }> {
  for await (const entry of await opendir(folder.path(), { bufferSize: ENTRIES_AT_ONCE, encoding: 'latin1' })) {
    yield { name: Buffer.from(entry.name, 'latin1'), isFolder: entry.isDirectory() };
  }
}

/** False where it is a folder with something in it. */
async function isRemoved(folder: OpenDirectory, name: Buffer, isFolder: boolean): Promise<boolean> {
  const path = folder.bytes(name);
  if (isFolder) {
    return await rmdir(path).then(
      () => true,
      (error) => {
        // A mount is busy: it is not entered.
        if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(error.code)) throw error;
        return error.code === 'ENOENT';
      },
    );
  }
  await unlink(path).catch((error) => {
    if (!isGone(error)) throw error; // removed by another process meanwhile
  });
  return true;
}

const succeeds = (work: Promise<void>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  );

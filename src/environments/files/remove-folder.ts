/**
 * Removes a folder that code has filled, whatever that has put into it: paths in it may be longer than the system takes,
 * and entries so many that removing them at once would hold up everybody else's files.
 */

import { hash, randomUUID } from 'node:crypto';
import { readdir, realpath, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { HeldFolder } from './held-folder.ts';
import { isGone, removeTree } from './remove-tree.ts';

/** How a folder is called from when it is discarded until it is gone: this, whose it was, and a name of its own. */
const DISCARDED = '.removed-';
/** Most folders are gone by then. */
const WAIT_MS = 2000;
const AT_ONCE = 2;
const AGAIN_MS = 60_000;
const LONGEST_AGAIN_MS = 3_600_000;

/** Told of each attempt that has failed. It is tried again later. */
export type OnFailure = (path: string, error: unknown) => void;

/** Nothing there is well. */
export async function removeFolder(path: string): Promise<void> {
  // Elsewhere folders cannot be held, and code runs in containers alone.
  if (process.platform !== 'linux') return await rm(path, { recursive: true, force: true });
  try {
    await using parent = await HeldFolder.root({ path: await realpath(dirname(path)) });
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
  const removed = removeAtLast(path, onFailure, attempts).finally(() => removals.delete(path));
  removals.set(path, { removed, again: () => attempts.next() });
  return removed;
}

function beginNext(): void {
  if (running.size >= AT_ONCE) return;
  const at = waiting.findIndex(({ owner }) => !running.has(owner));
  const [next] = at < 0 ? [] : waiting.splice(at, 1);
  if (!next) return;
  running.add(next.owner);
  next.begin();
}

async function removeAtLast(path: string, onFailure: OnFailure, attempts: { next: () => void }): Promise<void> {
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

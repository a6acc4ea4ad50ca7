/**
 * What changes below a folder of a workspace, as it changes: created, changed, deleted, by path.
 *
 * Links are not followed. Nothing is remembered of the files themselves, so that code which makes a hundred thousand
 * costs no memory here: where there is too much to tell, one `overflow` says to list again.
 */

import type { Dirent } from 'node:fs';
import { lstat, opendir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { FileChange } from '../../protocol/http/file-routes.ts';
import { Changes } from './changes.ts';
import { below, FolderWatches, type How } from './folder-watches.ts';
import { HeldFolder } from './held-folder.ts';
import { kindOf } from './kind.ts';
import { explained, isAbsence, missing, partsOf } from './path.ts';
import type { WatchShare } from './watch-share.ts';

/** What follows closely is told together. */
const GATHER_MS = 50;
/** After too much, nothing is listened to for a while, and for longer where it goes on. */
const REST_MS = 500;
const LONGEST_REST_MS = 8000;
/** How often it is looked whether the folder itself is still there: the system does not tell while it is held. */
const LOOK_MS = 1000;
const MOST_DEEP = 64;
/** Of one look at a tree. */
const MOST_ENTRIES = 50_000;
/** What is told of a folder that has come with something in it. */
const MOST_INSIDE = 1000;
/** What a write of ours is called until it is whole. */
const PARTIAL = /(^|\/)\.[0-9a-f-]{36}\.part$/;

export interface WatchOptions {
  readonly root: string;
  readonly path: string;
  readonly share: WatchShare;
  readonly signal: AbortSignal;
}

export async function* watchTree({ root, path, share, signal }: WatchOptions): AsyncGenerator<FileChange> {
  const parts = partsOf(path);
  await using top = await HeldFolder.root(root);
  await using folder = await top.walk(parts).catch((error) => {
    throw explained(path, error);
  });
  const tree = new WatchedTree(folder, share);
  let restMs = REST_MS;
  try {
    await tree.begin();
    yield { type: 'watching', folders: tree.folders };
    if (tree.cut) yield { type: 'overflow', reason: 'folders' };
    while (!signal.aborted) {
      await newsOrLook(tree.changes.news, signal);
      await sleep(GATHER_MS, signal);
      if (signal.aborted) return;
      if (await folder.removed()) throw missing(path);
      const taken = tree.changes.take();
      if (taken !== 'lost') {
        restMs = REST_MS;
        yield* tree.tell(taken);
      } else {
        tree.rest();
        await sleep(restMs, signal);
        restMs = Math.min(restMs * 2, LONGEST_REST_MS);
        // Told when it is watched again: whoever lists after it misses nothing.
        await tree.begin();
        yield { type: 'overflow', reason: 'events' };
        if (tree.cut) yield { type: 'overflow', reason: 'folders' };
      }
    }
  } finally {
    tree.close();
  }
}

class WatchedTree {
  readonly changes = new Changes();
  readonly #folder: HeldFolder;
  readonly #watches: FolderWatches;
  #entriesLeft = 0;
  #cut = false;

  constructor(folder: HeldFolder, share: WatchShare) {
    this.#folder = folder;
    this.#watches = new FolderWatches(share, this.changes);
  }

  get folders(): number {
    return this.#watches.count;
  }

  /** Whether there are folders that could not be watched. */
  get cut(): boolean {
    return this.#cut;
  }

  async begin(): Promise<void> {
    this.#cut = false;
    await using folder = await this.#folder.folder('.');
    await this.#enter('', folder, () => {});
  }

  /** Looks at each path now: what has happened in between is over. */
  async *tell(taken: ReadonlyMap<string, How>): AsyncGenerator<FileChange> {
    const before = this.#cut;
    for (const [path, how] of taken) if (!PARTIAL.test(path)) yield* this.#look(path, how);
    if (this.#cut && !before) yield { type: 'overflow', reason: 'folders' };
  }

  rest(): void {
    this.#watches.clear();
  }

  close(): void {
    this.#watches.close();
  }

  async *#look(path: string, how: How): AsyncGenerator<FileChange> {
    const names = path.split('/');
    const name = names.pop() ?? '';
    try {
      await using folder = await this.#folder.walk(names);
      const kind = kindOf(await lstat(folder.path(name)));
      yield { type: how === 'name' ? 'created' : 'changed', path, kind };
      if (how !== 'name' || kind !== 'folder') return;
      await using made = await folder.folder(name);
      const inside: FileChange[] = [];
      await this.#enter(path, made, (found, entry) => {
        if (PARTIAL.test(found)) return;
        if (inside.length < MOST_INSIDE) inside.push({ type: 'created', path: found, kind: kindOf(entry) });
        else this.changes.lost();
      });
      yield* inside;
    } catch (error) {
      // Whatever is there instead has an event of its own.
      this.#watches.dropTree(path);
      if (isAbsence(error)) yield { type: 'deleted', path };
      else this.changes.lost();
    }
  }

  /** Watches a folder, and then what is in it: what is made meanwhile is seen by one or the other. */
  async #enter(path: string, folder: HeldFolder, found: (path: string, entry: Dirent) => void): Promise<void> {
    this.#entriesLeft = MOST_ENTRIES;
    await this.#enterBelow(path, folder, found, 0);
  }

  async #enterBelow(
    path: string,
    folder: HeldFolder,
    found: (path: string, entry: Dirent) => void,
    depth: number,
  ): Promise<void> {
    if (depth > MOST_DEEP || !this.#watches.add(path, folder)) {
      this.#cut = true;
      return;
    }
    for await (const entry of await opendir(folder.path(), { bufferSize: 512 })) {
      if (this.#entriesLeft-- <= 0) {
        this.#cut = true;
        return;
      }
      const inner = below(path, entry.name);
      found(inner, entry);
      if (!entry.isDirectory()) continue;
      const opened = await folder.folder(entry.name).catch(() => undefined); // gone meanwhile
      if (!opened) continue;
      await using held = opened;
      await this.#enterBelow(inner, held, found, depth + 1);
    }
  }
}

async function newsOrLook(news: Promise<void>, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  await Promise.race([news, sleep(LOOK_MS, AbortSignal.any([signal, over.signal]))]);
  over.abort();
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal, ref: false }).catch(() => {}); // the caller looks at the signal
}

/**
 * What changes below a folder of a workspace, as it changes: created, changed, deleted, by path.
 *
 * Links below it are not followed. Nothing is remembered of the files themselves, so that code which makes a hundred thousand
 * costs no memory here: where there is too much to tell, one `overflow` says to list again.
 */

import { setTimeout as delay } from 'node:timers/promises';
import type { FileChange } from '../../protocol/http/file-routes.ts';
import { Changes } from './changes.ts';
import type { FileInfo, Files } from './files.ts';
import { below, FolderWatches, type How } from './folder-watches.ts';
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
const MOST_NAME_BYTES = 8 * 1024 * 1024;
/** What is told of a folder that has come with something in it. */
const MOST_INSIDE = 1000;
/** What a write of ours is called until it is whole. */
const PARTIAL = /(^|\/)\.[0-9a-f-]{36}\.part$/;

export interface WatchOptions {
  readonly files: Files;
  readonly path: string;
  readonly share: WatchShare;
  /** Whose part of it. */
  readonly whose: string;
  readonly signal: AbortSignal;
}

export async function* watchTree({ files, path, share, whose, signal }: WatchOptions): AsyncGenerator<FileChange> {
  const top = partsOf(path).join('/');
  await using folder = await files.folder(top).catch((error) => {
    throw explained(path, error);
  });
  const tree = new WatchedTree(files, top, { share, whose });
  let restMs = REST_MS;
  try {
    await tree.begin();
    yield { type: 'watching', folders: tree.folders };
    if (tree.cut) yield { type: 'overflow', reason: 'folders' };
    while (!signal.aborted) {
      await newsOrLook(tree.changes.news, signal);
      await sleep(GATHER_MS, signal);
      if (signal.aborted) return;
      if ((await folder.stat()).nlink === 0) throw missing(path);
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
  } catch (error) {
    throw explained(path, error);
  } finally {
    tree.close();
  }
}

class WatchedTree {
  readonly changes = new Changes();
  readonly #files: Files;
  readonly #top: string;
  readonly #watches: FolderWatches;
  #entriesLeft = 0;
  #bytesLeft = 0;
  #cut = false;

  constructor(files: Files, top: string, { share, whose }: Pick<WatchOptions, 'share' | 'whose'>) {
    this.#files = files;
    this.#top = top;
    this.#watches = new FolderWatches(share, whose, this.changes);
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
    await this.#enter('', () => {});
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
    try {
      const { kind } = await this.#files.entry(below(this.#top, path));
      yield { type: how === 'name' ? 'created' : 'changed', path, kind };
      if (how !== 'name' || kind !== 'folder') return;
      const inside: FileChange[] = [];
      await this.#enter(path, (found, entry) => {
        if (PARTIAL.test(found)) return;
        if (inside.length < MOST_INSIDE) inside.push({ type: 'created', path: found, kind: entry.kind });
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
  async #enter(path: string, found: (path: string, entry: FileInfo) => void): Promise<void> {
    this.#entriesLeft = MOST_ENTRIES;
    this.#bytesLeft = MOST_NAME_BYTES;
    await this.#enterBelow(path, found, 0);
  }

  async #enterBelow(path: string, found: (path: string, entry: FileInfo) => void, depth: number): Promise<void> {
    {
      await using folder = await this.#files.folder(below(this.#top, path));
      if (depth > MOST_DEEP || !this.#watches.add(path, folder)) {
        this.#cut = true;
        return;
      }
    }
    const { files, bytes, cut } = await this.#files.list(below(this.#top, path), this.#entriesLeft, this.#bytesLeft);
    this.#entriesLeft -= files.length;
    this.#bytesLeft -= bytes;
    if (cut) this.#cut = true;
    for (const entry of files) {
      const inner = below(path, entry.name);
      found(inner, entry);
      if (entry.kind !== 'folder') continue;
      await this.#enterBelow(inner, found, depth + 1).catch(() => {
        // Gone meanwhile, or closed to the code, which cannot watch it either.
        this.#watches.dropTree(inner);
      });
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

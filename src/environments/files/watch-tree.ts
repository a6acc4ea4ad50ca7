/** Watches a tree of folders, each as itself and never through a link, within limits that all watches share. */

import { type FSWatcher, watch } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { FileChange } from '../../protocol/workspace-models.ts';
import { isAbsence, missing, partsOf, toFileError } from './file-paths.ts';
import type { Files, SessionFileInfo } from './session-files.ts';

/** Changes within this time are reported together. */
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

interface WatchOptions {
  readonly files: Files;
  readonly path: string;
  readonly share: WatchBudget;
  /** Whose part of it. */
  readonly whose: string;
  readonly signal: AbortSignal;
}

export async function* watchTree({ files, path, share, whose, signal }: WatchOptions): AsyncGenerator<FileChange> {
  const top = partsOf(path).join('/');
  await using folder = await files.folder(top).catch((error) => {
    throw toFileError(path, error);
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
        // Reported when it is watched again: a client that lists its files then misses nothing.
        await tree.begin();
        yield { type: 'overflow', reason: 'events' };
        if (tree.cut) yield { type: 'overflow', reason: 'folders' };
      }
    }
  } catch (error) {
    throw toFileError(path, error);
  } finally {
    tree.close();
  }
}

class WatchedTree {
  readonly changes = new ChangeBuffer();
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
  async *tell(taken: ReadonlyMap<string, ChangeKind>): AsyncGenerator<FileChange> {
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

  async *#look(path: string, how: ChangeKind): AsyncGenerator<FileChange> {
    try {
      const { kind } = await this.#files.entry(joinPath(this.#top, path));
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
  async #enter(path: string, found: (path: string, entry: SessionFileInfo) => void): Promise<void> {
    this.#entriesLeft = MOST_ENTRIES;
    this.#bytesLeft = MOST_NAME_BYTES;
    await this.#enterBelow(path, found, 0);
  }

  async #enterBelow(path: string, found: (path: string, entry: SessionFileInfo) => void, depth: number): Promise<void> {
    {
      await using folder = await this.#files.folder(joinPath(this.#top, path));
      if (depth > MOST_DEEP || !this.#watches.add(path, folder)) {
        this.#cut = true;
        return;
      }
    }
    const { files, bytes, cut } = await this.#files.list(joinPath(this.#top, path), this.#entriesLeft, this.#bytesLeft);
    this.#entriesLeft -= files.length;
    this.#bytesLeft -= bytes;
    if (cut) this.#cut = true;
    for (const entry of files) {
      const inner = joinPath(path, entry.name);
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

const MOST_PATHS = 1000;
/** Code that writes to one file without end must not keep the server busy. */
const MOST_EVENTS = 8192;

class ChangeBuffer {
  #paths = new Map<string, ChangeKind>();
  #events = 0;
  #lost = false;
  #news = Promise.withResolvers<void>();

  happened(path: string, how: ChangeKind): void {
    if (this.#lost) return;
    this.#events++;
    if (this.#paths.get(path) !== 'name') this.#paths.set(path, how);
    if (this.#events > MOST_EVENTS || this.#paths.size > MOST_PATHS) this.lost();
    this.#news.resolve();
  }

  lost(): void {
    this.#lost = true;
    this.#paths.clear();
    this.#news.resolve();
  }

  /** Resolves when there is something to take. */
  get news(): Promise<void> {
    return this.#news.promise;
  }

  take(): ReadonlyMap<string, ChangeKind> | 'lost' {
    const taken = this.#lost ? 'lost' : this.#paths;
    this.#paths = new Map();
    this.#events = 0;
    this.#lost = false;
    this.#news = Promise.withResolvers();
    return taken;
  }
}

/** `name`: something of that name was made, removed or replaced. `content`: it was written to. */
type ChangeKind = 'name' | 'content';

interface WatchListener {
  happened(path: string, how: ChangeKind): void;
  /** Events may be missing. */
  lost(): void;
}

const MOST_FOLDERS_PER_TREE = 2000;

class FolderWatches {
  readonly #share: WatchBudget;
  readonly #whose: string;
  readonly #listener: WatchListener;
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #unlisten: () => void;

  constructor(share: WatchBudget, whose: string, listener: WatchListener) {
    this.#share = share;
    this.#whose = whose;
    this.#listener = listener;
    this.#unlisten = share.listen(() => listener.lost());
  }

  get count(): number {
    return this.#watchers.size;
  }

  /** False where one more cannot be had. */
  add(path: string, folder: FileHandle): boolean {
    this.#drop(path);
    if (this.#watchers.size >= MOST_FOLDERS_PER_TREE || !this.#share.takeFolder(this.#whose)) return false;
    try {
      const watcher = watch(`/proc/self/fd/${folder.fd}/.`, { persistent: false }, (event, name) => {
        this.#share.count();
        // The watch of the parent folder reports what happens to the folder itself.
        if (name !== null && name !== '.') this.#listener.happened(joinPath(path, name), toHow[event]);
      });
      watcher.on('error', () => this.#listener.lost());
      this.#watchers.set(path, watcher);
      return true;
    } catch {
      this.#share.giveFolder(this.#whose);
      return false; // the system has no room for it
    }
  }

  /** A folder that is no longer there, and what was in it. */
  dropTree(path: string): void {
    for (const watched of this.#watchers.keys()) {
      if (watched === path || watched.startsWith(`${path}/`)) this.#drop(watched);
    }
  }

  clear(): void {
    for (const path of this.#watchers.keys()) this.#drop(path);
  }

  close(): void {
    this.clear();
    this.#unlisten();
  }

  #drop(path: string): void {
    const watcher = this.#watchers.get(path);
    if (!watcher) return;
    watcher.close();
    this.#watchers.delete(path);
    this.#share.giveFolder(this.#whose);
  }
}

const toHow = { rename: 'name', change: 'content' } as const;

export function joinPath(path: string, name: string): string {
  return path === '' ? name : `${path}/${name}`;
}

const MOST_FOLDERS = 20_000;
/** Of one user: it takes several to leave none for another. */
const MOST_OF_ONE = 5000;
/** The system keeps 16,384 by default. */
const MOST_AT_ONCE = 8192;

export class WatchBudget {
  readonly #listeners = new Set<() => void>();
  readonly #ofEach = new Map<string, number>();
  #folders = 0;
  #atOnce = 0;

  /** False where there are as many as may be. */
  takeFolder(whose: string): boolean {
    const own = this.#ofEach.get(whose) ?? 0;
    if (this.#folders >= MOST_FOLDERS || own >= MOST_OF_ONE) return false;
    this.#folders++;
    this.#ofEach.set(whose, own + 1);
    return true;
  }

  giveFolder(whose: string): void {
    const others = (this.#ofEach.get(whose) ?? 1) - 1;
    this.#folders--;
    if (others === 0) this.#ofEach.delete(whose);
    else this.#ofEach.set(whose, others);
  }

  /** Called with each event of the system. */
  count(): void {
    // All that the queue holds comes before anything else has its turn.
    if (this.#atOnce === 0) setImmediate(() => this.#over());
    this.#atOnce++;
  }

  /** `lost` is told when events may be missing. Gives what to call when nobody listens any more. */
  listen(lost: () => void): () => void {
    this.#listeners.add(lost);
    return () => this.#listeners.delete(lost);
  }

  #over(): void {
    const burst = this.#atOnce >= MOST_AT_ONCE;
    this.#atOnce = 0;
    if (burst) for (const lost of this.#listeners) lost();
  }
}

/** The one of this process: the system has one queue for all watches of a process. */
export const processWatches = new WatchBudget();

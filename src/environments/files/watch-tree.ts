/** Watches a tree of folders without following links, within limits that all watches share. */

import { type FSWatcher, watch } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { FileChange, FileInfo } from '../../protocol/workspace-models.ts';
import type { FilesInTurn } from './file-limits.ts';
import { isAbsence, missing, partsOf, toFileError } from './file-paths.ts';
import type { Files } from './session-files.ts';

/** Changes within this time are reported together. */
const GATHER_MS = 50;
/** After too many events, the watch pauses for this long, and longer if the events continue. */
const REST_MS = 500;
const LONGEST_REST_MS = 8000;
/** How often to check that the folder itself still exists: the system does not report its removal while it is held open. */
const POLL_MS = 1000;
const MOST_DEEP = 64;
/** Limits for one scan of a tree. */
const MOST_ENTRIES = 50_000;
const MOST_NAME_BYTES = 8 * 1024 * 1024;
/** The most entries to report for a new folder that is not empty. */
const MOST_INSIDE = 1000;
/** The names of files that Cella is still writing. */
const PARTIAL = /(^|\/)\.[0-9a-f-]{36}\.part$/;

interface WatchOptions {
  readonly files: FilesInTurn;
  readonly path: string;
  readonly share: WatchBudget;
  /** The user whose share of the budget the watch takes. */
  readonly whose: string;
  readonly signal: AbortSignal;
}

export async function* watchTree({ files, path, share, whose, signal }: WatchOptions): AsyncGenerator<FileChange> {
  const top = partsOf(path).join('/');
  const folder = await files.folder(top).catch((error) => {
    throw toFileError(path, error);
  });
  const tree = new WatchedTree(files, top, { share, whose });
  let restMs = REST_MS;
  try {
    await tree.begin();
    yield { type: 'watching', folders: tree.folders };
    if (tree.cut) yield { type: 'overflow', reason: 'folders' };
    while (!signal.aborted) {
      await newsOrTimeout(tree.changes.news, signal);
      await sleep(GATHER_MS, signal);
      if (signal.aborted) return;
      if ((await files.stepOpen(() => folder.stat())).nlink === 0) throw missing(path);
      const taken = tree.changes.take();
      if (taken !== 'lost') {
        restMs = REST_MS;
        yield* tree.changesOf(taken);
      } else {
        tree.rest();
        await sleep(restMs, signal);
        restMs = Math.min(restMs * 2, LONGEST_REST_MS);
        // Reported only once watching has resumed, so that a client that then lists its files misses nothing.
        await tree.begin();
        yield { type: 'overflow', reason: 'events' };
        if (tree.cut) yield { type: 'overflow', reason: 'folders' };
      }
    }
  } catch (error) {
    throw toFileError(path, error);
  } finally {
    tree.close();
    await files.endOpen(() => folder.close()).catch(() => {}); // an earlier error has reported a hanging folder
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

  /** Whether some folders could not be watched. */
  get cut(): boolean {
    return this.#cut;
  }

  async begin(): Promise<void> {
    this.#cut = false;
    await this.#enter('', () => {});
  }

  /** Reports the current state of each path, not the changes in between. */
  async *changesOf(taken: ReadonlyMap<string, ChangeKind>): AsyncGenerator<FileChange> {
    const before = this.#cut;
    for (const [path, how] of taken) if (!PARTIAL.test(path)) yield* this.#inspect(path, how);
    if (this.#cut && !before) yield { type: 'overflow', reason: 'folders' };
  }

  rest(): void {
    this.#watches.clear();
  }

  close(): void {
    this.#watches.close();
  }

  async *#inspect(path: string, how: ChangeKind): AsyncGenerator<FileChange> {
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
      // Whatever is there now has its own event.
      this.#watches.dropTree(path);
      if (isAbsence(error)) yield { type: 'deleted', path };
      else this.changes.lost();
    }
  }

  /** Watches a folder before listing it, so that no new entry is missed. */
  async #enter(path: string, found: (path: string, entry: FileInfo) => void): Promise<void> {
    this.#entriesLeft = MOST_ENTRIES;
    this.#bytesLeft = MOST_NAME_BYTES;
    await this.#enterBelow(path, found, 0);
  }

  async #enterBelow(path: string, found: (path: string, entry: FileInfo) => void, depth: number): Promise<void> {
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
        // The folder is gone, or closed to the code, which could not watch it either.
        this.#watches.dropTree(inner);
      });
    }
  }
}

async function newsOrTimeout(news: Promise<void>, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  await Promise.race([news, sleep(POLL_MS, AbortSignal.any([signal, over.signal]))]);
  over.abort();
}

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal, ref: false }).catch(() => {}); // the caller checks the signal
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

  /** Resolves when there are changes to take. */
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

/** `name`: an entry was created, removed or replaced. `content`: it was written to. */
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

  /** False if the limit of watches is reached. */
  add(path: string, folder: FileHandle): boolean {
    this.#drop(path);
    if (this.#watchers.size >= MOST_FOLDERS_PER_TREE || !this.#share.takeFolder(this.#whose)) return false;
    try {
      const watcher = watch(`/proc/self/fd/${folder.fd}/.`, { persistent: false }, (event, name) => {
        this.#share.count();
        // The watch of the parent folder reports changes of the folder itself.
        if (name !== null && name !== '.') this.#listener.happened(joinPath(path, name), toHow[event]);
      });
      watcher.on('error', () => this.#listener.lost());
      this.#watchers.set(path, watcher);
      return true;
    } catch {
      this.#share.giveFolder(this.#whose);
      return false; // the system has no room for another watch
    }
  }

  /** Drops a removed folder and everything below it. */
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
/** Limit per user, so that one user alone cannot use up all watches. */
const MOST_OF_ONE = 5000;
/** The system's queue holds 16,384 events by default. */
const MOST_AT_ONCE = 8192;

export class WatchBudget {
  readonly #listeners = new Set<() => void>();
  readonly #ofEach = new Map<string, number>();
  #folders = 0;
  #atOnce = 0;

  /** False if the limit is reached. */
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

  /** Call for each event of the system. */
  count(): void {
    // All queued events arrive before other work of the event loop.
    if (this.#atOnce === 0) setImmediate(() => this.#over());
    this.#atOnce++;
  }

  /** Calls `lost` when events may be missing. Returns a function that stops listening. */
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

/** Shared by the process, because the system has one event queue for all its watches. */
export const processWatches = new WatchBudget();

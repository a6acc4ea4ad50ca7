/** The folders of one tree that the system watches, by their paths. Each is watched as itself, whatever has its name later. */

import { type FSWatcher, watch } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import type { WatchShare } from './watch-share.ts';

/** `name`: something of that name was made, removed or replaced. `content`: it was written to. */
export type How = 'name' | 'content';

export interface WatchListener {
  happened(path: string, how: How): void;
  /** Events may be missing. */
  lost(): void;
}

const MOST_FOLDERS = 2000;

export class FolderWatches {
  readonly #share: WatchShare;
  readonly #whose: string;
  readonly #listener: WatchListener;
  readonly #watchers = new Map<string, FSWatcher>();
  readonly #unlisten: () => void;

  constructor(share: WatchShare, whose: string, listener: WatchListener) {
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
    if (this.#watchers.size >= MOST_FOLDERS || !this.#share.takeFolder(this.#whose)) return false;
    try {
      const watcher = watch(`/proc/self/fd/${folder.fd}/.`, { persistent: false }, (event, name) => {
        this.#share.count();
        // What happens to the folder itself is told by the one that it is in.
        if (name !== null && name !== '.') this.#listener.happened(below(path, name), toHow[event]);
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

export function below(path: string, name: string): string {
  return path === '' ? name : `${path}/${name}`;
}

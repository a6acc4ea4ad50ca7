/** The storages of this process: sessions of one data folder share one, which closes some time after the last of them. */

import type { Storage } from '../storage/contract.ts';

const IDLE_MS = 30_000;

interface Entry {
  readonly storage: Promise<Storage>;
  /** Ended by `shutdown`, whoever still uses it. */
  ended: boolean;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

const entries = new Map<string, Entry>();

async function open(path: string): Promise<Storage> {
  const { FileStorage } = await import('../storage/file/storage.ts');
  return await FileStorage.open(path);
}

export interface BorrowedStorage {
  readonly storage: Promise<Storage>;
  readonly giveBack: () => void;
  /** Whether it was taken away. */
  readonly ended: () => boolean;
}

export function borrowStorage(path: string): BorrowedStorage {
  const entry = entries.get(path) ?? { storage: open(path), ended: false, users: 0, timer: undefined };
  entries.set(path, entry);
  clearTimeout(entry.timer);
  entry.users++;
  let borrowed = true;
  const giveBack = () => {
    if (!borrowed) return;
    borrowed = false;
    if (--entry.users > 0 || entries.get(path) !== entry) return;
    entry.timer = setTimeout(() => {
      entries.delete(path);
      void close(entry);
    }, IDLE_MS).unref();
  };
  // One that could not be opened is not kept for the next.
  entry.storage.catch(() => {
    if (entries.get(path) === entry) entries.delete(path);
  });
  return { storage: entry.storage, giveBack, ended: () => entry.ended };
}

/** The storage that a session was given, which its owner closes, or the one of its data folder. */
export function storageFor(given: Storage | undefined, dataDir: string): BorrowedStorage {
  if (!given) return borrowStorage(dataDir);
  return { storage: Promise.resolve(given), giveBack: () => {}, ended: () => false };
}

export async function closeStorages(): Promise<void> {
  const all = [...entries.values()];
  entries.clear();
  await Promise.all(all.map(close));
}

async function close(entry: Entry): Promise<void> {
  clearTimeout(entry.timer);
  entry.ended = true;
  // One that could not be opened has told whoever asked for it.
  await (await entry.storage.catch(() => undefined))?.close();
}

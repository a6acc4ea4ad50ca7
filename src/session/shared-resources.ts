/** The executors and storages of this process. Sessions with the same settings share one; it closes some time after its last user. */

import type { Executor } from '../environments/kernel-host.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Storage } from '../storage/contract.ts';

const IDLE_MS = 30_000;

/** How to make an executor. Those with the same key are one. */
export interface ExecutorFactory {
  readonly key: string;
  make(): Executor;
}

interface ExecutorEntry {
  readonly executor: Executor;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

const executorEntries = new Map<string, ExecutorEntry>();

export function acquireExecutor({ key, make }: ExecutorFactory): { executor: Executor; giveBack: () => void } {
  const entry = executorEntries.get(key) ?? { executor: make(), users: 0, timer: undefined };
  executorEntries.set(key, entry);
  clearTimeout(entry.timer);
  entry.users++;
  let borrowed = true;
  const giveBack = () => {
    if (!borrowed) return;
    borrowed = false;
    entry.users--;
    if (entry.users > 0 || executorEntries.get(key) !== entry) return;
    entry.timer = setTimeout(() => {
      executorEntries.delete(key);
      entry.executor.close().catch(() => {}); // it ends with this process at the latest
    }, IDLE_MS).unref();
  };
  return { executor: entry.executor, giveBack };
}

/** Called before anything else: what is known of the options comes later than it takes a spare to wake up. */
export function wakeSpares(): void {
  for (const { executor } of executorEntries.values()) executor.spares.wake();
}

/** Ends every executor and spare of this process at once. Sessions that are still open lose their kernels. */
export async function shutdown(): Promise<void> {
  const all = [...executorEntries.values()];
  executorEntries.clear();
  for (const entry of all) clearTimeout(entry.timer);
  await Promise.all(all.map((entry) => entry.executor.close()));
  await closeStorages();
}

interface StorageEntry {
  readonly storage: Promise<Storage>;
  /** Ended by `shutdown`, whoever still uses it. */
  ended: boolean;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

const storageEntries = new Map<string, StorageEntry>();

async function openFileStorage(path: string): Promise<Storage> {
  const { FileStorage } = await import('../storage/file/storage.ts');
  return await FileStorage.open(path);
}

export interface AcquiredStorage {
  readonly storage: Promise<Storage>;
  readonly release: () => void;
  /** Whether it was taken away. */
  readonly ended: () => boolean;
}

export function acquireStorage(path: string): AcquiredStorage {
  const entry = storageEntries.get(path) ?? {
    storage: openFileStorage(path),
    ended: false,
    users: 0,
    timer: undefined,
  };
  storageEntries.set(path, entry);
  clearTimeout(entry.timer);
  entry.users++;
  let borrowed = true;
  const giveBack = () => {
    if (!borrowed) return;
    borrowed = false;
    if (--entry.users > 0 || storageEntries.get(path) !== entry) return;
    entry.timer = setTimeout(() => {
      storageEntries.delete(path);
      void closeEntry(entry);
    }, IDLE_MS).unref();
  };
  // One that could not be opened is not kept for the next.
  entry.storage.catch(() => {
    if (storageEntries.get(path) === entry) storageEntries.delete(path);
  });
  return { storage: entry.storage, release: giveBack, ended: () => entry.ended };
}

/** The storage that a session was given, which its owner closes, or the one of its data folder. */
export function storageFor(given: Storage | undefined, dataDir: string): AcquiredStorage {
  if (!given) return acquireStorage(dataDir);
  return { storage: Promise.resolve(given), release: () => {}, ended: () => false };
}

export async function closeStorages(): Promise<void> {
  const all = [...storageEntries.values()];
  storageEntries.clear();
  await Promise.all(all.map(closeEntry));
}

async function closeEntry(entry: StorageEntry): Promise<void> {
  clearTimeout(entry.timer);
  entry.ended = true;
  // One that could not be opened has told whoever asked for it.
  await (await entry.storage.catch(() => undefined))?.close();
}

export interface StorageChoice {
  readonly storage: 'file' | 'redis';
  readonly dataDir: string;
  /** `redis://[:password@]host:port/database`. */
  readonly redisUrl?: string | undefined;
  readonly prefix?: string | undefined;
}

const DEFAULT_PREFIX = 'cella';

/** Whoever opens it closes it. */
export async function openStorage(choice: StorageChoice): Promise<Storage> {
  if (choice.storage === 'file') {
    const { FileStorage } = await import('../storage/file/storage.ts');
    return await FileStorage.open(choice.dataDir);
  }
  if (choice.redisUrl === undefined) {
    const message = 'Redis storage needs the address of its server: --redis redis://127.0.0.1:6379, or CELLA_REDIS.';
    throw new CellaError('INVALID_OPTIONS', message);
  }
  const { RedisStorage } = await import('../storage/redis/storage.ts');
  return await RedisStorage.open(choice.redisUrl, { prefix: choice.prefix ?? DEFAULT_PREFIX });
}

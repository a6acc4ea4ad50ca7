/** The executors and storages of this process. Sessions with the same settings share one; it closes some time after its last user. */

import type { Executor } from '../environments/kernel-host.ts';
import { type Acquired, RefCounted } from '../lib/ref-counted.ts';
import type { Storage } from '../storage/contract.ts';
import { openStorage } from '../storage/open-storage.ts';

const IDLE_MS = 30_000;

const executors = new RefCounted<Executor>({ idleMs: IDLE_MS, close: (executor) => executor.close() });

const storages = new RefCounted<Promise<Storage>>({
  idleMs: IDLE_MS,
  close: async (opening) => await (await opening.catch(() => undefined))?.close(),
});

/** How to make an executor. Those with the same key are one. */
export interface ExecutorFactory {
  readonly key: string;
  make(): Executor;
}

export type AcquiredStorage = Acquired<Promise<Storage>>;

export function acquireExecutor({ key, make }: ExecutorFactory): Acquired<Executor> {
  return executors.acquire(key, make);
}

/** Called before the options are checked: waking a spare takes longer. */
export function wakeSpares(): void {
  for (const executor of executors.resources()) executor.spares.wake();
}

/** Ends every executor and spare of this process at once. Sessions that are still open lose their kernels. */
export async function shutdown(): Promise<void> {
  await executors.closeAll();
  await closeStorages();
}

/** The given storage, which its owner closes, or the one of the data folder. */
export function acquireStorage(given: Storage | undefined, dataDir: string): AcquiredStorage {
  if (given) return { resource: Promise.resolve(given), closed: false, release: () => {} };
  const acquired = storages.acquire(dataDir, () => openStorage({ type: 'file', path: dataDir }));
  acquired.resource.catch(() => storages.forget(dataDir, acquired.resource));
  return acquired;
}

export async function closeStorages(): Promise<void> {
  await storages.closeAll();
}

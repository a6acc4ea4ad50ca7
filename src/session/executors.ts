/** The executors of this process: sessions of one kind share one, which ends some time after the last of them. */

import type { Executor } from '../environments/kernel-host.ts';
import { closeStorages } from './storages.ts';

const IDLE_MS = 30_000;

/** How to make an executor. Those with the same key are one. */
export interface ExecutorRecipe {
  readonly key: string;
  make(): Executor;
}

interface Entry {
  readonly executor: Executor;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

const entries = new Map<string, Entry>();

export function borrowExecutor({ key, make }: ExecutorRecipe): { executor: Executor; giveBack: () => void } {
  const entry = entries.get(key) ?? { executor: make(), users: 0, timer: undefined };
  entries.set(key, entry);
  clearTimeout(entry.timer);
  entry.users++;
  let borrowed = true;
  const giveBack = () => {
    if (!borrowed) return;
    borrowed = false;
    entry.users--;
    if (entry.users > 0 || entries.get(key) !== entry) return;
    entry.timer = setTimeout(() => {
      entries.delete(key);
      entry.executor.close().catch(() => {}); // it ends with this process at the latest
    }, IDLE_MS).unref();
  };
  return { executor: entry.executor, giveBack };
}

/** Called before anything else: what is known of the options comes later than it takes a spare to wake up. */
export function wakeSpares(): void {
  for (const { executor } of entries.values()) executor.spares.wake();
}

/** Ends every executor and spare of this process at once. Sessions that are still open lose their kernels. */
export async function shutdown(): Promise<void> {
  const all = [...entries.values()];
  entries.clear();
  for (const entry of all) clearTimeout(entry.timer);
  await Promise.all(all.map((entry) => entry.executor.close()));
  await closeStorages();
}

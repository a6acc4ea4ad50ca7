/** Lets go of the locks of sessions that are over, also where storage fails at that moment: no key stays with nobody. */

import type { Lock } from '../storage/contract.ts';

const AGAIN_MS = 1000;

/** By key: what lets go of a lock that could not be released when its session ended. */
const stuck = new Map<string, () => Promise<void>>();

export interface Grip {
  /** One key of one storage. */
  readonly key: string;
  readonly lock: Lock;
  /** The storage of the lock was closed, and its locks with it. */
  readonly ended: () => boolean;
  /** Called when the lock is free. */
  readonly done: () => void;
}

/** Rejects where storage fails, and goes on trying in the background. */
export async function letGo({ key, lock, ended, done }: Grip): Promise<void> {
  const release = async () => {
    if (!ended()) await lock.release();
    stuck.delete(key);
    done();
  };
  try {
    await release();
  } catch (error) {
    stuck.set(key, release);
    tryLater(key, release);
    throw error;
  }
}

/** For whoever wants a key: it may be free but for a lock that is left over. */
export async function letGoOfLeftovers(key: string): Promise<void> {
  await stuck.get(key)?.();
}

function tryLater(key: string, release: () => Promise<void>): void {
  const attempt = async () => {
    if (stuck.get(key) !== release) return;
    // It was told when the session ended, and is told again to whoever wants the key.
    await release().catch(() => tryLater(key, release));
  };
  setTimeout(attempt, AGAIN_MS).unref();
}

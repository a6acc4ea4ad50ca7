/**
 * Tools, skills, artifacts and packages of a user as they lie in storage: to look at them takes no kernel. They stay open
 * for a while: whoever reads them page by page has the skills read once.
 */

import { type OpenedNamespaces, openNamespaces } from '../../session/session-namespaces.ts';
import type { HostShare } from './share.ts';
import { storageOf } from './user-storage.ts';

type Place = Pick<HostShare, 'storage' | 'dataDir' | 'session'>;

const KEPT_MS = 10_000;
/** Of users at a time; those that are in use are never closed. */
const MOST_KEPT = 32;

interface Kept {
  readonly opened: Promise<OpenedNamespaces>;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

export class Things implements AsyncDisposable {
  readonly #place: Place;
  /** By user, the one that was used last at the end. */
  readonly #kept = new Map<string, Kept>();

  constructor(place: Place) {
    this.#place = place;
  }

  /** To be disposed of by whoever asks. */
  async of(ownerId: string): Promise<OpenedNamespaces> {
    const kept = this.#kept.get(ownerId) ?? { opened: openThings(this.#place, ownerId), users: 0, timer: undefined };
    clearTimeout(kept.timer);
    kept.users += 1;
    this.#kept.delete(ownerId);
    this.#kept.set(ownerId, kept);
    let given = false;
    const giveBack = async () => {
      if (given) return;
      given = true;
      kept.users -= 1;
      await this.#rest(ownerId, kept);
    };
    try {
      const { tools, skills, artifacts, deps } = await kept.opened;
      return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: giveBack };
    } catch (error) {
      if (this.#kept.get(ownerId) === kept) this.#kept.delete(ownerId);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#kept.keys()].map((ownerId) => this.#close(ownerId)));
  }

  async #rest(ownerId: string, kept: Kept): Promise<void> {
    if (kept.users > 0) return;
    kept.timer = setTimeout(() => void this.#close(ownerId), KEPT_MS).unref();
    if (this.#kept.size <= MOST_KEPT) return;
    const [oldest] = [...this.#kept].find(([, { users }]) => users === 0) ?? [];
    if (oldest !== undefined) await this.#close(oldest);
  }

  async #close(ownerId: string): Promise<void> {
    const kept = this.#kept.get(ownerId);
    this.#kept.delete(ownerId);
    clearTimeout(kept?.timer);
    // One that could not be opened has told whoever waited for it.
    await (await kept?.opened.catch(() => undefined))?.[Symbol.asyncDispose]();
  }
}

async function openThings({ storage, dataDir, session }: Place, ownerId: string): Promise<OpenedNamespaces> {
  const { python, packages, toolFolders, credentials } = session;
  return await openNamespaces({
    dataDir,
    storage: storageOf(storage, ownerId),
    python,
    packages,
    toolFolders,
    credentials,
  });
}

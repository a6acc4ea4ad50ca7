/**
 * Which sessions have files in this data folder. Where several servers share a storage, the one that deletes a session
 * reaches its own files alone: what it has left with the others is removed by each of them, here.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { discardFolder, type OnFailure } from '../../environments/files/remove-tree.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { folderName } from '../../storage/folder-name.ts';
import { everyDocument } from '../every-document.ts';
import { ownerIn } from './ids.ts';
import { Outputs } from './outputs.ts';

const FILES = 'session-files';

const Kept = z.object({
  session: z.string(),
  /** Under which its files lie. */
  key: z.string(),
  /** Of another storage nobody here knows what was deleted: its files are left alone. */
  storage: z.string(),
});
type Kept = z.infer<typeof Kept>;

export interface LeftoversParts {
  /** Of this machine alone. */
  readonly documents: DocumentStore;
  readonly dataDir: string;
  /** Which storage it is that the servers share. */
  readonly storage: string;
  /** Told of files that could not be removed yet. */
  readonly onFailure?: OnFailure;
}

export class Leftovers {
  readonly #parts: LeftoversParts;

  constructor(parts: LeftoversParts) {
    this.#parts = parts;
  }

  /** Before a session begins here, for whoever has its lock: the files of an earlier one with this key are not its own. */
  async arrive(session: string, key: string): Promise<void> {
    const { documents, storage } = this.#parts;
    const there = await this.#get(key);
    if (there?.session === session && there.storage === storage) return;
    if (there?.storage === storage) await this.#remove(there);
    await documents.put(FILES, nameOf(key), { session, key, storage } satisfies Kept);
  }

  /** Its files are removed. */
  async forget(key: string): Promise<void> {
    await this.#parts.documents.delete(FILES, nameOf(key));
  }

  /** Those whose session is no more, by key. */
  async *gone(isThere: (session: string) => Promise<boolean>): AsyncGenerator<string> {
    for await (const { value } of everyDocument(this.#parts.documents, FILES)) {
      const kept = Kept.safeParse(value);
      if (!kept.success || kept.data.storage !== this.#parts.storage) continue;
      if (!(await isThere(kept.data.session))) yield kept.data.key;
    }
  }

  /** For whoever has the lock of the key: unless another session has come here meanwhile. */
  async clear(key: string, isThere: (session: string) => Promise<boolean>): Promise<void> {
    const there = await this.#get(key);
    if (!there || (await isThere(there.session))) return;
    await this.#remove(there);
    await this.forget(key);
  }

  async #get(key: string): Promise<Kept | undefined> {
    return Kept.safeParse((await this.#parts.documents.get(FILES, nameOf(key)))?.value).data;
  }

  async #remove({ session, key }: Kept): Promise<void> {
    const { dataDir, onFailure = () => {} } = this.#parts;
    await discardFolder(join(dataDir, 'agents', folderName(key)), ownerIn(key), onFailure);
    await new Outputs(dataDir, session).remove();
  }
}

/** Keys are any text, ids are not. */
const nameOf = (key: string): string => createHash('sha256').update(JSON.stringify(key)).digest('hex');

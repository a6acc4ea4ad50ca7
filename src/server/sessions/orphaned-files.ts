/**
 * Which sessions have files in this data folder. If several servers share a storage, the one that deletes a session removes
 * its own files only; each other server removes what the session left with it, here.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { discardFolder, type OnFailure } from '../../environments/files/remove-tree.ts';
import { everyDocument } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { folderName } from '../../storage/folder-name.ts';
import { OutputFiles } from '../events/output-files.ts';
import { ownerIn } from '../ids.ts';

const FILES = 'session-files';

const FilesRecord = z.object({
  session: z.string(),
  /** The key of its files. */
  key: z.string(),
  /** Files of another storage are left alone: what was deleted there is unknown here. */
  storage: z.string(),
});
type FilesRecord = z.infer<typeof FilesRecord>;

export interface OrphanedFilesParts {
  /** Only of this machine. */
  readonly documents: DocumentStore;
  readonly dataDir: string;
  /** The id of the storage that the servers share. */
  readonly storage: string;
  /** Called for files that could not be removed yet. */
  readonly onFailure?: OnFailure;
}

export class OrphanedFiles {
  readonly #parts: OrphanedFilesParts;

  constructor(parts: OrphanedFilesParts) {
    this.#parts = parts;
  }

  /** Call it with the lock held, before a session starts here: removes the files of an earlier session with this key. */
  async claim(session: string, key: string): Promise<void> {
    const { documents, storage } = this.#parts;
    const there = await this.#get(key);
    if (there?.session === session && there.storage === storage) return;
    if (there?.storage === storage) await this.#removeFiles(there);
    await documents.put(FILES, documentId(key), { session, key, storage } satisfies FilesRecord);
  }

  /** Its files were removed. */
  async forget(key: string): Promise<void> {
    await this.#parts.documents.delete(FILES, documentId(key));
  }

  /** Keys whose session no longer exists. */
  async *orphans(isThere: (session: string) => Promise<boolean>): AsyncGenerator<string> {
    for await (const { value } of everyDocument(this.#parts.documents, FILES)) {
      const kept = FilesRecord.safeParse(value);
      if (!kept.success || kept.data.storage !== this.#parts.storage) continue;
      if (!(await isThere(kept.data.session))) yield kept.data.key;
    }
  }

  /** Call it with the lock of the key held. Removes nothing if another session has claimed the key meanwhile. */
  async remove(key: string, isThere: (session: string) => Promise<boolean>): Promise<void> {
    const there = await this.#get(key);
    if (!there || (await isThere(there.session))) return;
    await this.#removeFiles(there);
    await this.forget(key);
  }

  async #get(key: string): Promise<FilesRecord | undefined> {
    return FilesRecord.safeParse((await this.#parts.documents.get(FILES, documentId(key)))?.value).data;
  }

  async #removeFiles({ session, key }: FilesRecord): Promise<void> {
    const { dataDir, onFailure = () => {} } = this.#parts;
    await discardFolder(join(dataDir, 'agents', folderName(key)), ownerIn(key), onFailure);
    await new OutputFiles(dataDir, session).remove();
  }
}

/** Keys may be any text, ids may not. */
const documentId = (key: string): string => createHash('sha256').update(JSON.stringify(key)).digest('hex');

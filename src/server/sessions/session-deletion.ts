/**
 * Deletes sessions and all their data. The next start finishes a deletion that was interrupted. Each server removes its own
 * files of a session that another server has deleted.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { z } from 'zod';
import { discardFolder, type OnFailure } from '../../environments/files/remove-tree.ts';
import { CellaError } from '../../protocol/errors.ts';
import { everyDocument } from '../../storage/collection.ts';
import type { DocumentStore, Lock } from '../../storage/contract.ts';
import { folderName } from '../../storage/validation.ts';
import { deleteRecoveryPosition } from '../events/log-recovery.ts';
import { OutputFiles } from '../events/output-files.ts';
import { ownerIn, storageKeyOf } from '../ids.ts';
import { PermissionRecords } from '../permissions/permission-records.ts';
import { PermissionRuleStore } from '../permissions/permission-rules.ts';
import { TurnRecords } from '../turns/turn-records.ts';
import { IdempotencyStore } from './idempotency.ts';
import type { OpenSessions } from './open-sessions.ts';
import type { SessionDefinition, SessionDefinitions } from './session-definitions.ts';
import { acquireSession, isHeldByOther } from './session-ending.ts';
import type { SessionServices } from './session-types.ts';

export class SessionDeletion {
  readonly #services: SessionServices;
  readonly #definitions: SessionDefinitions;
  readonly #open: OpenSessions;
  readonly #begunAt = Date.now();
  /** A second call waits for the first. */
  readonly #pending = new Map<string, Promise<void>>();

  constructor(share: SessionServices, definitions: SessionDefinitions, open: OpenSessions) {
    this.#services = share;
    this.#definitions = definitions;
    this.#open = open;
  }

  get pending(): Iterable<Promise<void>> {
    return this.#pending.values();
  }

  async delete(id: string): Promise<void> {
    const session = await this.#open.get(id);
    const { definition, storage } = session;
    await this.#checkUnshared(definition);
    const begin = (there: SessionDefinition): SessionDefinition => ({ ...there, life: 'deleting' });
    await session.applyDefinition(() => this.#definitions.update(id, begin, storage.documents));
    await this.erase(definition);
  }

  /** A session that is being deleted, or was never completed. */
  erase(definition: SessionDefinition): Promise<void> {
    const { id } = definition;
    const known = this.#pending.get(id);
    if (known) return known;
    const erasing = this.#erase(definition).finally(() => this.#pending.delete(id));
    this.#pending.set(id, erasing);
    return erasing;
  }

  /** Finishes what the previous server left. False if something could not be deleted. */
  async finishInterrupted(onFailure: (id: string, error: unknown) => void): Promise<boolean> {
    let all = true;
    const half = ['making', 'deleting'].map((value) => ({ field: 'life', value }));
    for await (const definition of this.#definitions.where(half)) {
      const { life, createdAt } = definition;
      // A fork that is being created now is not a leftover.
      if (life === 'making' && createdAt >= this.#begunAt) continue;
      await this.erase(definition).catch((error) => {
        // Another server deletes it.
        if (isHeldByOther(error)) return;
        all = false;
        onFailure(definition.id, error);
      });
    }
    return all;
  }

  async #erase(definition: SessionDefinition): Promise<void> {
    await this.#checkStillUnshared(definition);
    const session = await this.#open.find(definition.id);
    await session?.destroy();
    this.#open.remove(definition.id);
    await deleteSessionData(this.#services, definition);
    await this.#services.agents?.deleteSessionData(definition.id);
    await this.#definitions.remove(definition);
  }

  /**
   * A fork may have started after the first check. A fork is stored before it checks its parent, and a deletion before it
   * checks for forks again: one of the two always sees the other.
   */
  async #checkStillUnshared(definition: SessionDefinition): Promise<void> {
    try {
      await this.#checkUnshared(definition);
    } catch (error) {
      const stay = (there: SessionDefinition): SessionDefinition =>
        there.life === 'deleting' ? { ...there, life: 'present' } : there;
      if (error instanceof CellaError && error.code === 'SESSION_CONFLICT') {
        const update = () => this.#definitions.update(definition.id, stay);
        const session = await this.#open.find(definition.id);
        await (session ? session.applyDefinition(update) : update());
      }
      throw error;
    }
  }

  /** Forks share the workspace: it is removed with the last of them. */
  async #checkUnshared({ id }: SessionDefinition): Promise<void> {
    const forks: string[] = [];
    for await (const { life, id: fork } of this.#definitions.where([{ field: 'forkOf', value: id }])) {
      if (life !== 'deleting') forks.push(fork);
    }
    if (forks.length === 0) return;
    const message = `Forks work in the workspace of session ${id}: ${forks.join(', ')}.`;
    const advice = 'Delete the forks first.';
    throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, forks }, advice });
  }
}

/** How long another process may take to release the session. */
const LOCK_WAIT_MS = 5000;

/** May be called again if it failed. */
async function deleteSessionData(share: SessionServices, { id, ownerId, agentKey }: SessionDefinition): Promise<void> {
  const { storage, dataDir, leftovers } = share;
  const key = storageKeyOf(ownerId, agentKey);
  await using lock = await acquireSession(storage, key, LOCK_WAIT_MS);
  const { documents, ...own } = storage.fenced(lock);
  await own.deleteKey(key);
  await discardFolder(join(dataDir, 'agents', folderName(key)), ownerId, share.onLeftover);
  await leftovers?.forget(key);
  const outputs = new OutputFiles(dataDir, id);
  await new IdempotencyStore(documents, outputs, id, share.requests).remove();
  await new TurnRecords(documents, id).remove();
  await outputs.remove();
  await new PermissionRecords(documents, id).deleteAll();
  await new PermissionRuleStore(documents, { session: id }).deleteAll();
  await deleteRecoveryPosition({ documents }, id);
}

const FILES = 'session-files';

const FilesRecord = z.object({
  session: z.string(),
  /** The key of its files. */
  key: z.string(),
  /** Leaves files of another storage alone, because deletions there are unknown here. */
  storage: z.string(),
});
type FilesRecord = z.infer<typeof FilesRecord>;

interface OrphanedFilesParts {
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

  /** Before a session starts here: removes the files of an earlier session with the key of its lock. */
  async claim(session: string, { key }: Lock): Promise<void> {
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
  async *orphans(exists: (session: string) => Promise<boolean>): AsyncGenerator<string> {
    for await (const { value } of everyDocument(this.#parts.documents, FILES)) {
      const kept = FilesRecord.safeParse(value);
      if (!kept.success || kept.data.storage !== this.#parts.storage) continue;
      if (!(await exists(kept.data.session))) yield kept.data.key;
    }
  }

  /** Removes nothing if another session has claimed the key in the meantime. */
  async remove({ key }: Lock, exists: (session: string) => Promise<boolean>): Promise<void> {
    const there = await this.#get(key);
    if (!there || (await exists(there.session))) return;
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

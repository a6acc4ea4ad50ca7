/** Transcripts: each text is a file, and a row of the database has its name. */

import { randomUUID } from 'node:crypto';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makePrivateFolder, syncFolder } from '../../lib/private-file.ts';
import { systemCode } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { NewTranscript, StoredTranscript, TranscriptStore } from '../contract.ts';
import { readTranscript, writeTranscript } from '../transcript-text.ts';
import { folderName } from '../validation.ts';
import { type Database, keyColumn } from './database.ts';
import { guarded, storageFailed } from './file-errors.ts';
import type { StagingFolder } from './staging-folder.ts';

const idColumn = (id: string): string => JSON.stringify(id);

interface FileTranscriptsOptions {
  readonly folder: string;
  readonly staging: StagingFolder;
  readonly database: Database;
}

/** Leftovers of a killed process are removed at the next start, or with the agent key. */
export class FileTranscripts implements TranscriptStore {
  readonly #options: FileTranscriptsOptions;

  constructor(options: FileTranscriptsOptions) {
    this.#options = options;
  }

  async put(agentKey: string, id: string, { revision, text, ifLonger = false }: NewTranscript): Promise<boolean> {
    const { folder, staging } = this.#options;
    const known = await this.#find(agentKey, id);
    if (known && known.revision >= revision) return false;
    return await guarded('write a transcript in', folder, async () => {
      const unfinished = await staging.file();
      const place = this.#folderOf(agentKey);
      const file = randomUUID();
      try {
        const written = await writeFile(unfinished, text);
        await makePrivateFolder(place);
        await rename(unfinished, join(place, file));
        await syncFolder(place);
        const unused = await this.#publish(agentKey, id, { revision, file, ifLonger, ...written });
        if (unused !== undefined) await rm(join(place, unused), { force: true });
        return unused !== file;
      } finally {
        await rm(unfinished, { force: true });
      }
    });
  }

  async get(agentKey: string, id: string): Promise<StoredTranscript | undefined> {
    const found = await this.#find(agentKey, id);
    if (!found) return undefined;
    const { revision, length, file } = found;
    return { revision, length, text: readFile(join(this.#folderOf(agentKey), file), id) };
  }

  list(agentKey: string): Promise<string[]> {
    return this.#options.database.read((db) => {
      const rows = db.iterate('SELECT id FROM transcripts WHERE agent = ? ORDER BY number', keyColumn(agentKey));
      return [...rows].map(({ id }) => String(JSON.parse(String(id))));
    });
  }

  bytes(agentKey: string): Promise<number> {
    const sum = 'SELECT coalesce(sum(bytes), 0) AS bytes FROM transcripts WHERE agent = ?';
    return this.#options.database.read((db) => Number(db.get(sum, keyColumn(agentKey))?.bytes));
  }

  async delete(agentKey: string, id: string): Promise<boolean> {
    const file = await this.#options.database.writeDurably((db) => {
      const deleted = 'DELETE FROM transcripts WHERE agent = ? AND id = ? RETURNING file';
      return db.get(deleted, keyColumn(agentKey), idColumn(id))?.file;
    });
    if (file === undefined) return false;
    const path = join(this.#folderOf(agentKey), String(file));
    await guarded('delete', path, () => rm(path, { force: true }));
    return true;
  }

  async deleteAll(agentKey: string): Promise<void> {
    const { database, staging } = this.#options;
    await database.writeDurably((db) => db.run('DELETE FROM transcripts WHERE agent = ?', keyColumn(agentKey)));
    const place = this.#folderOf(agentKey);
    await guarded('delete', place, () => staging.discard(place));
  }

  /** Returns the file that no row names afterwards: the old one, or the new one if it came too late. */
  #publish(
    agentKey: string,
    id: string,
    { revision, length, file, bytes, ifLonger }: StoredRow & { readonly bytes: number; readonly ifLonger: boolean },
  ): Promise<string | undefined> {
    const key = [keyColumn(agentKey), idColumn(id)] as const;
    return this.#options.database.writeDurably((db) => {
      const there = db.get('SELECT revision, length, file FROM transcripts WHERE agent = ? AND id = ?', ...key);
      if (there && (Number(there.revision) >= revision || (ifLonger && Number(there.length) >= length))) return file;
      db.run(
        'INSERT INTO transcripts (agent, id, revision, length, bytes, file) VALUES (?, ?, ?, ?, ?, ?) ' +
          'ON CONFLICT (agent, id) DO UPDATE SET revision = excluded.revision, length = excluded.length, ' +
          'bytes = excluded.bytes, file = excluded.file',
        ...key,
        revision,
        length,
        bytes,
        file,
      );
      return there && String(there.file);
    });
  }

  async #find(agentKey: string, id: string): Promise<StoredRow | undefined> {
    const row = await this.#options.database.read((db) =>
      db.get(
        'SELECT revision, length, file FROM transcripts WHERE agent = ? AND id = ?',
        keyColumn(agentKey),
        idColumn(id),
      ),
    );
    return row && { revision: Number(row.revision), length: Number(row.length), file: String(row.file) };
  }

  #folderOf(agentKey: string): string {
    return join(this.#options.folder, folderName(agentKey));
  }
}

interface StoredRow {
  readonly revision: number;
  readonly length: number;
  readonly file: string;
}

async function writeFile(path: string, text: NewTranscript['text']): Promise<{ length: number; bytes: number }> {
  await using file = await open(path, 'wx', 0o600);
  let bytes = 0;
  const length = await writeTranscript(text, async (slice) => {
    await file.writeFile(slice);
    bytes += slice.length;
  });
  await file.sync();
  return { length, bytes };
}

/** It stays the file that was opened, even if another replaces it. */
async function* readFile(path: string, id: string): AsyncGenerator<string> {
  await using file = await openText(path, id);
  const damaged = (cause?: unknown) => {
    const message = `Cannot read transcript ${JSON.stringify(id)} in ${path}: it is damaged.`;
    return new CellaError('STORAGE_FAILED', message, { cause, details: { path } });
  };
  yield* readTranscript(chunksOf(file, path), damaged);
}

async function openText(path: string, id: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (cause) {
    if (systemCode(cause) !== 'ENOENT') throw storageFailed('read', path, cause);
    const message = `Cannot read transcript ${JSON.stringify(id)}: it was replaced or deleted meanwhile. Read it again.`;
    throw new CellaError('STORAGE_FAILED', message, { cause, details: { path } });
  }
}

const READ_BYTES = 256 * 1024;

async function* chunksOf(file: FileHandle, path: string): AsyncGenerator<Uint8Array> {
  for (;;) {
    const chunk = Buffer.alloc(READ_BYTES);
    const { bytesRead } = await guarded('read', path, () => file.read(chunk, 0, READ_BYTES));
    if (bytesRead === 0) return;
    yield chunk.subarray(0, bytesRead);
  }
}

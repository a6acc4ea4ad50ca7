/** Records, documents and deps: stores with one SQLite row per item. */

import { giveWay } from '../../lib/event-loop.ts';
import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import {
  checkCollection,
  checkId,
  documentText,
  entriesOf,
  entryOf,
  isIndexed,
  type KeptDocument,
  PAGE_CHARACTERS,
  pageOf,
  rangeOf,
  readDocument,
} from '../collection.ts';
import type {
  DepsStore,
  DocumentCondition,
  DocumentField,
  DocumentPage,
  DocumentStore,
  ListDocuments,
  ListRecords,
  RecordStore,
  StoredDocument,
} from '../contract.ts';
import type { SessionRecord } from '../session-record.ts';
import { type FoundRecord, parseRecord, RecordLists, readRecord, recordText } from '../validation.ts';
import { type Database, keyColumn, type Row, type SqliteConnection, scopeColumn } from './database.ts';

/** How many keys to read at a time. */
const PAGE = 500;

export class FileRecords extends RecordLists implements RecordStore {
  readonly #database: Database;

  constructor(database: Database) {
    super();
    this.#database = database;
  }

  async get(agentKey: string): Promise<SessionRecord | undefined> {
    const row = await this.#database.read((db) =>
      db.get('SELECT record FROM records WHERE agent = ?', keyColumn(agentKey)),
    );
    if (!row) return undefined;
    const { path } = this.#database;
    return readRecord(String(row.record), agentKey, path, { path });
  }

  async put(agentKey: string, record: SessionRecord): Promise<void> {
    const text = recordText(agentKey, record);
    await this.#database.writeDurably((db) =>
      db.run(
        'INSERT INTO records (agent, record) VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET record = excluded.record',
        keyColumn(agentKey),
        text,
      ),
    );
  }

  async delete(agentKey: string): Promise<boolean> {
    const changes = await this.#database.writeDurably((db) =>
      db.run('DELETE FROM records WHERE agent = ?', keyColumn(agentKey)),
    );
    return changes > 0;
  }

  protected async *all(which: ListRecords['which'] = () => true): AsyncGenerator<FoundRecord> {
    const rows = 'SELECT rowid AS number, agent FROM records WHERE rowid > ? ORDER BY rowid LIMIT ?';
    for (let [after, more] = [0, true]; more; ) {
      const page = await this.#database.read((db) => [...db.iterate(rows, after, PAGE)]);
      for (const { number, agent } of page) {
        await giveWay();
        after = Number(number);
        const agentKey: string = JSON.parse(String(agent));
        if (!which(agentKey)) continue;
        const text = 'SELECT record FROM records WHERE agent = ?';
        const row = await this.#database.read((db) => db.get(text, keyColumn(agentKey)));
        // Deleted since its key was read.
        if (row) yield { agentKey, parsed: parseRecord(String(row.record)) };
      }
      more = page.length === PAGE;
    }
  }
}

export class FileDocuments implements DocumentStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async get(collection: string, id: string): Promise<StoredDocument | undefined> {
    const key = [checkCollection(collection), checkId(id)] as const;
    const row = await this.#database.read((db) =>
      db.get('SELECT id, revision, document FROM documents WHERE collection = ? AND id = ?', ...key),
    );
    return row && readDocument(collection, toKept(row), this.#database.path);
  }

  async put(
    collection: string,
    id: string,
    value: unknown,
    { ifRevision }: DocumentCondition = {},
  ): Promise<number | undefined> {
    const key = [checkCollection(collection), checkId(id)] as const;
    const text = documentText(collection, id, value);
    return this.#database.writeDurably((db) => {
      if (!holds(db, key, ifRevision)) return undefined;
      const put = 'INSERT OR REPLACE INTO documents (collection, id, document) VALUES (?, ?, ?) RETURNING revision';
      const revision = Number(db.get(put, ...key, text)?.revision);
      if (isIndexed(collection)) {
        db.run(UNINDEX, ...key);
        for (const entry of entriesOf(collection, value)) db.run(INDEX, collection, entry, id);
      }
      return revision;
    });
  }

  async delete(collection: string, id: string, { ifRevision }: DocumentCondition = {}): Promise<boolean> {
    const key = [checkCollection(collection), checkId(id)] as const;
    return this.#database.writeDurably((db) => {
      if (!holds(db, key, ifRevision)) return false;
      if (isIndexed(collection)) db.run(UNINDEX, ...key);
      return db.run('DELETE FROM documents WHERE collection = ? AND id = ?', ...key) > 0;
    });
  }

  async list(collection: string, options: ListDocuments = {}): Promise<DocumentPage> {
    checkCollection(collection);
    const { from, inclusive, to, limit } = rangeOf(options);
    const range = `f.collection = ? AND f.id ${inclusive ? '>=' : '>'} ? AND f.id < ?`;
    const { where } = options;
    const rows = where
      ? `SELECT d.id, d.revision, d.document FROM document_fields f JOIN documents d USING (collection, id) WHERE ${range} AND f.entry = ? ORDER BY f.id LIMIT ?`
      : `SELECT f.id, f.revision, f.document FROM documents f WHERE ${range} ORDER BY f.id LIMIT ?`;
    const wanted = where ? [entryOf(collection, where)] : [];
    return this.#database.read((db) => {
      const kept: KeptDocument[] = [];
      let characters = 0;
      for (const row of db.iterate(rows, collection, from, to, ...wanted, limit + 1)) {
        if (kept.length === limit || characters >= PAGE_CHARACTERS) return pageOf(kept, true);
        const document = toKept(row);
        kept.push(document);
        characters += document.text.length;
      }
      return pageOf(kept, false);
    });
  }

  async count(collection: string, where?: DocumentField): Promise<number> {
    checkCollection(collection);
    const rows = where
      ? 'SELECT count(*) AS number FROM document_fields WHERE collection = ? AND entry = ?'
      : 'SELECT count(*) AS number FROM documents WHERE collection = ?';
    const wanted = where ? [entryOf(collection, where)] : [];
    return Number((await this.#database.read((db) => db.get(rows, collection, ...wanted)))?.number);
  }
}

const UNINDEX = 'DELETE FROM document_fields WHERE collection = ? AND id = ?';
const INDEX = 'INSERT INTO document_fields (collection, entry, id) VALUES (?, ?, ?)';

function holds(db: SqliteConnection, key: readonly [string, string], ifRevision: number | undefined): boolean {
  if (ifRevision === undefined) return true;
  const row = db.get('SELECT revision FROM documents WHERE collection = ? AND id = ?', ...key);
  return Number(row?.revision ?? 0) === ifRevision;
}

const toKept = ({ id, revision, document }: Row): KeptDocument => ({
  id: String(id),
  revision: Number(revision),
  text: String(document),
});

export class FileDeps implements DepsStore {
  readonly #database: Database;
  readonly #scope: string;

  constructor(database: Database, scope?: string) {
    this.#database = database;
    this.#scope = scopeColumn(scope);
  }

  list(): Promise<string[]> {
    return this.#database.read((db) => {
      const rows = db.iterate('SELECT requirement FROM deps WHERE scope = ? ORDER BY name', this.#scope);
      return [...rows].map(({ requirement }) => String(requirement));
    });
  }

  async add(requirement: string): Promise<boolean> {
    const { name, text } = parseRequirement(requirement);
    const changes = await this.#database.writeDurably((db) =>
      db.run(
        'INSERT INTO deps (scope, name, requirement) VALUES (?, ?, ?) ON CONFLICT (scope, name) ' +
          'DO UPDATE SET requirement = excluded.requirement WHERE requirement <> excluded.requirement',
        this.#scope,
        name,
        text,
      ),
    );
    return changes > 0;
  }

  async remove(name: string): Promise<boolean> {
    const checked = checkPackageName(name);
    const changes = await this.#database.writeDurably((db) =>
      db.run('DELETE FROM deps WHERE scope = ? AND name = ?', this.#scope, checked),
    );
    return changes > 0;
  }

  async deleteAll(): Promise<void> {
    await this.#database.writeDurably((db) => db.run('DELETE FROM deps WHERE scope = ?', this.#scope));
  }
}

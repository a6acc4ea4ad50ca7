/** Documents, one row each. A put makes the row anew, so that SQLite gives it a revision that none ever had. */

import type {
  DocumentCondition,
  DocumentField,
  DocumentPage,
  DocumentStore,
  ListDocuments,
  StoredDocument,
} from '../contract.ts';
import { entriesOf, entryOf, isIndexed } from '../document-fields.ts';
import {
  checkCollection,
  checkId,
  documentText,
  type KeptDocument,
  PAGE_CHARACTERS,
  pageOf,
  rangeOf,
  readDocument,
} from '../document-text.ts';
import type { Connection, Row } from './connection.ts';
import type { Database } from './database.ts';

export class FileDocuments implements DocumentStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async get(collection: string, id: string): Promise<StoredDocument | undefined> {
    const place = [checkCollection(collection), checkId(id)] as const;
    const row = await this.#database.read((db) =>
      db.get('SELECT id, revision, document FROM documents WHERE collection = ? AND id = ?', ...place),
    );
    return row && readDocument(collection, toKept(row), this.#database.path);
  }

  async put(
    collection: string,
    id: string,
    value: unknown,
    { ifRevision }: DocumentCondition = {},
  ): Promise<number | undefined> {
    const place = [checkCollection(collection), checkId(id)] as const;
    const text = documentText(collection, id, value);
    return this.#database.writeDurably((db) => {
      if (!holds(db, place, ifRevision)) return undefined;
      const put = 'INSERT OR REPLACE INTO documents (collection, id, document) VALUES (?, ?, ?) RETURNING revision';
      const revision = Number(db.get(put, ...place, text)?.revision);
      if (isIndexed(collection)) {
        db.run(UNINDEX, ...place);
        for (const entry of entriesOf(collection, value)) db.run(INDEX, collection, entry, id);
      }
      return revision;
    });
  }

  async delete(collection: string, id: string, { ifRevision }: DocumentCondition = {}): Promise<boolean> {
    const place = [checkCollection(collection), checkId(id)] as const;
    return this.#database.writeDurably((db) => {
      if (!holds(db, place, ifRevision)) return false;
      if (isIndexed(collection)) db.run(UNINDEX, ...place);
      return db.run('DELETE FROM documents WHERE collection = ? AND id = ?', ...place) > 0;
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

function holds(db: Connection, place: readonly [string, string], ifRevision: number | undefined): boolean {
  if (ifRevision === undefined) return true;
  const row = db.get('SELECT revision FROM documents WHERE collection = ? AND id = ?', ...place);
  return Number(row?.revision ?? 0) === ifRevision;
}

const toKept = ({ id, revision, document }: Row): KeptDocument => ({
  id: String(id),
  revision: Number(revision),
  text: String(document),
});

/** The tables of cella.db, and the version that says which they are. */

import type { DatabaseSync } from 'node:sqlite';
import { CellaError } from '../../protocol/errors.ts';
import { entriesOf, indexedCollections } from '../document-format.ts';

/**
 * Each entry leads from one version to the next. Keys are stored as JSON, which tells all of them apart: as plain text,
 * lone surrogates would become the same.
 */
const steps: readonly (string | ((database: DatabaseSync) => void))[] = [
  `
CREATE TABLE records (agent TEXT PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, floor INTEGER NOT NULL,
  bytes INTEGER NOT NULL
);
CREATE TABLE events (
  log INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, start INTEGER NOT NULL, event TEXT NOT NULL,
  PRIMARY KEY (log, seq)
);
CREATE TABLE locks (
  agent TEXT PRIMARY KEY, grip TEXT NOT NULL, holder TEXT NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL,
  command TEXT, since INTEGER NOT NULL
);
`,
  `
CREATE TABLE deps (name TEXT PRIMARY KEY, requirement TEXT NOT NULL);
CREATE TABLE transcripts (
  number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
  text TEXT NOT NULL, UNIQUE (agent, id)
);
`,
  `
CREATE TABLE documents (
  revision INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  UNIQUE (collection, id)
);
`,
  `
CREATE TABLE scope_deps (scope TEXT NOT NULL, name TEXT NOT NULL, requirement TEXT NOT NULL, PRIMARY KEY (scope, name));
INSERT INTO scope_deps SELECT '', name, requirement FROM deps;
DROP TABLE deps;
ALTER TABLE scope_deps RENAME TO deps;
`,
  indexDocuments,
];

/** Makes the tables that are missing. Several processes may do so at once: one makes them. */
export function prepareSchema(database: DatabaseSync, path: string): void {
  if (versionOf(database) < steps.length) {
    database.exec('BEGIN IMMEDIATE');
    for (const step of steps.slice(versionOf(database))) {
      if (typeof step === 'string') database.exec(step);
      else step(database);
    }
    if (versionOf(database) < steps.length) database.exec(`PRAGMA user_version = ${steps.length}`);
    database.exec('COMMIT');
  }
  const version = versionOf(database);
  if (version === steps.length) return;
  throw new CellaError(
    'STORAGE_FAILED',
    `Cannot use ${path}: it has version ${version}, and this Cella knows version ${steps.length}. Use a newer Cella, or another folder.`,
    { details: { path, version } },
  );
}

/** With those that are there already. */
function indexDocuments(database: DatabaseSync): void {
  database.exec(`
CREATE TABLE document_fields (
  collection TEXT NOT NULL, entry TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (collection, entry, id)
) WITHOUT ROWID;
CREATE INDEX document_fields_of ON document_fields (collection, id);
`);
  const insert = database.prepare('INSERT INTO document_fields (collection, entry, id) VALUES (?, ?, ?)');
  const rows = database.prepare('SELECT id, document FROM documents WHERE collection = ?');
  for (const collection of indexedCollections) {
    for (const { id, document } of rows.iterate(collection)) {
      for (const entry of entriesOf(collection, parsedOrNothing(String(document))))
        insert.run(collection, entry, String(id));
    }
  }
}

function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // damaged: it is found by its id alone
  }
}

const versionOf = (database: DatabaseSync): number =>
  Number(database.prepare('PRAGMA user_version').get()?.user_version);

/** Empty for what is in no scope. */
export const scopeColumn = (scope: string | undefined): string => (scope === undefined ? '' : JSON.stringify(scope));

export const agentColumn = (agentKey: string): string => JSON.stringify(agentKey);

/** Session records, one row each. */

import { giveWay } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DamagedRecord, ListRecords, RecordStore } from '../contract.ts';
import { type ParsedRecord, parseRecord, recordText } from '../record-text.ts';
import type { SessionRecord } from '../session-record.ts';
import type { Database } from './database.ts';
import { agentColumn } from './schema.ts';

/** Keys that are read at a time. */
const PAGE = 500;

export class FileRecords implements RecordStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async get(agentKey: string): Promise<SessionRecord | undefined> {
    const row = await this.#database.read((db) =>
      db.get('SELECT record FROM records WHERE agent = ?', agentColumn(agentKey)),
    );
    if (!row) return undefined;
    const parsed = parseRecord(String(row.record));
    if ('record' in parsed) return parsed.record;
    throw new CellaError(
      'STORAGE_FAILED',
      `Cannot read the record of agent ${JSON.stringify(agentKey)} in ${this.#database.path}: ${parsed.reason}. ` +
        'Use the version of Cella that wrote it, or delete the agent.',
      { details: { agentKey, path: this.#database.path } },
    );
  }

  async put(agentKey: string, record: SessionRecord): Promise<void> {
    const text = recordText(agentKey, record);
    await this.#database.writeDurably((db) =>
      db.run(
        'INSERT INTO records (agent, record) VALUES (?, ?) ON CONFLICT (agent) DO UPDATE SET record = excluded.record',
        agentColumn(agentKey),
        text,
      ),
    );
  }

  async list({ which }: ListRecords = {}): Promise<SessionRecord[]> {
    const all = await this.#all(which);
    return all.flatMap(({ parsed }) => ('record' in parsed ? [parsed.record] : []));
  }

  async damaged(): Promise<DamagedRecord[]> {
    const all = await this.#all();
    return all.flatMap(({ agentKey, parsed }) => ('reason' in parsed ? [{ agentKey, reason: parsed.reason }] : []));
  }

  async delete(agentKey: string): Promise<boolean> {
    const changes = await this.#database.writeDurably((db) =>
      db.run('DELETE FROM records WHERE agent = ?', agentColumn(agentKey)),
    );
    return changes > 0;
  }

  async #all(which: ListRecords['which'] = () => true): Promise<{ agentKey: string; parsed: ParsedRecord }[]> {
    const all: { agentKey: string; parsed: ParsedRecord }[] = [];
    const rows = 'SELECT rowid AS number, agent FROM records WHERE rowid > ? ORDER BY rowid LIMIT ?';
    for (let [after, more] = [0, true]; more; ) {
      const page = await this.#database.read((db) => [...db.iterate(rows, after, PAGE)]);
      for (const { number, agent } of page) {
        await giveWay();
        after = Number(number);
        const agentKey: string = JSON.parse(String(agent));
        if (!which(agentKey)) continue;
        const text = 'SELECT record FROM records WHERE agent = ?';
        const row = await this.#database.read((db) => db.get(text, agentColumn(agentKey)));
        // Deleted since its key was read.
        if (row) all.push({ agentKey, parsed: parseRecord(String(row.record)) });
      }
      more = page.length === PAGE;
    }
    return all;
  }
}

/** Transcripts, one row each. Texts are stored as JSON, which keeps every character of them. */

import type { TranscriptStore } from '../contract.ts';
import type { Database } from './database.ts';
import { agentColumn } from './schema.ts';

const asJson = (text: string): string => JSON.stringify(text);

export class FileTranscripts implements TranscriptStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async put(agentKey: string, id: string, { revision, text }: { revision: number; text: string }): Promise<boolean> {
    const changes = await this.#database.writeDurably((db) =>
      db.run(
        'INSERT INTO transcripts (agent, id, revision, text) VALUES (?, ?, ?, ?) ON CONFLICT (agent, id) ' +
          'DO UPDATE SET revision = excluded.revision, text = excluded.text WHERE revision < excluded.revision',
        agentColumn(agentKey),
        asJson(id),
        revision,
        asJson(text),
      ),
    );
    return changes > 0;
  }

  async get(agentKey: string, id: string): Promise<{ revision: number; text: string } | undefined> {
    const row = await this.#database.read((db) =>
      db.get('SELECT revision, text FROM transcripts WHERE agent = ? AND id = ?', agentColumn(agentKey), asJson(id)),
    );
    return row && { revision: Number(row.revision), text: String(JSON.parse(String(row.text))) };
  }

  list(agentKey: string): Promise<string[]> {
    return this.#database.read((db) => {
      const rows = db.iterate('SELECT id FROM transcripts WHERE agent = ? ORDER BY number', agentColumn(agentKey));
      return [...rows].map(({ id }) => String(JSON.parse(String(id))));
    });
  }

  bytes(agentKey: string): Promise<number> {
    // Read from what each row says of itself, and not from the texts.
    const sum = 'SELECT coalesce(sum(octet_length(text)), 0) AS bytes FROM transcripts WHERE agent = ?';
    return this.#database.read((db) => Number(db.get(sum, agentColumn(agentKey))?.bytes));
  }

  async delete(agentKey: string, id: string): Promise<boolean> {
    const changes = await this.#database.writeDurably((db) =>
      db.run('DELETE FROM transcripts WHERE agent = ? AND id = ?', agentColumn(agentKey), asJson(id)),
    );
    return changes > 0;
  }

  async deleteAll(agentKey: string): Promise<void> {
    await this.#database.writeDurably((db) => db.run('DELETE FROM transcripts WHERE agent = ?', agentColumn(agentKey)));
  }
}

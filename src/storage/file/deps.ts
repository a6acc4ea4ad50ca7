/** The packages that kernels are to have, one row each. */

import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import type { DepsStore } from '../contract.ts';
import type { Database } from './database.ts';
import { scopeColumn } from './schema.ts';

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

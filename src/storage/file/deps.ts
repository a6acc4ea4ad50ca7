/** The packages that kernels are to have, one row each. */

import { checkPackageName, parseRequirement } from '../../protocol/requirement.ts';
import type { DepsStore } from '../contract.ts';
import type { Database } from './database.ts';

export class FileDeps implements DepsStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  list(): Promise<string[]> {
    return this.#database.read((db) =>
      [...db.iterate('SELECT requirement FROM deps ORDER BY name')].map(({ requirement }) => String(requirement)),
    );
  }

  async add(requirement: string): Promise<boolean> {
    const { name, text } = parseRequirement(requirement);
    const changes = await this.#database.writeDurably((db) =>
      db.run(
        'INSERT INTO deps (name, requirement) VALUES (?, ?) ON CONFLICT (name) ' +
          'DO UPDATE SET requirement = excluded.requirement WHERE requirement <> excluded.requirement',
        name,
        text,
      ),
    );
    return changes > 0;
  }

  async remove(name: string): Promise<boolean> {
    const checked = checkPackageName(name);
    const changes = await this.#database.writeDurably((db) => db.run('DELETE FROM deps WHERE name = ?', checked));
    return changes > 0;
  }
}

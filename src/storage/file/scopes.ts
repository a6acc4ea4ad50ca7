/** Scopes: a folder each for skills and artifacts, and rows of their own among the deps. */

import { join } from 'node:path';
import type { Clock } from '../contract.ts';
import { folderName } from '../folder-name.ts';
import type { ViewParts } from '../view.ts';
import { FileArtifacts } from './artifacts.ts';
import type { Database } from './database.ts';
import { FileDeps } from './deps.ts';
import { guarded } from './failure.ts';
import type { Lifelines } from './lifeline.ts';
import { FileLocks } from './locks.ts';
import { Scrap } from './scrap.ts';
import { FileTexts } from './texts.ts';

interface Ground {
  /** Scopes lie in it, each in a folder of its own. */
  readonly folder: string;
  /** For those that are being removed. */
  readonly scrap: Scrap;
  readonly database: Database;
  readonly lifelines: Lifelines;
  readonly clock: Clock;
}

interface FileScope extends ViewParts {
  readonly artifacts: FileArtifacts;
  readonly deps: FileDeps;
  /** When what ended processes have left in it is gone. */
  readonly swept: Promise<unknown>;
}

export class FileScopes {
  readonly #ground: Ground;
  readonly #open = new Map<string, FileScope>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  of(name: string): FileScope {
    const known = this.#open.get(name);
    if (known) return known;
    const scope = openScope(name, this.#pathOf(name), this.#ground);
    this.#open.set(name, scope);
    return scope;
  }

  async delete(name: string): Promise<void> {
    const { artifacts, deps } = this.of(name);
    this.#open.delete(name);
    await artifacts.close();
    await deps.deleteAll();
    const path = this.#pathOf(name);
    await guarded('delete', path, () => this.#ground.scrap.discard(path));
  }

  async close(): Promise<void> {
    for (const { artifacts, swept } of this.#open.values()) {
      await artifacts.close();
      await swept;
    }
  }

  #pathOf(name: string): string {
    return join(this.#ground.folder, folderName(name));
  }
}

function openScope(name: string, path: string, { database, lifelines, clock }: Ground): FileScope {
  const skills = placeAt(join(path, 'skills'), lifelines);
  const artifacts = placeAt(join(path, 'artifacts'), lifelines);
  // Written in another way than the names of agents and of artifacts in no scope.
  const column = (artifact: string) => `scope ${JSON.stringify(name)} artifact ${JSON.stringify(artifact)}`;
  const turns = new FileLocks(database, lifelines, clock, column);
  const sweep = async () => {
    await skills.scrap.sweep();
    await artifacts.scrap.sweep();
  };
  return {
    skills: new FileTexts({ ...skills, what: 'skill', ending: '.py' }),
    artifacts: new FileArtifacts({ ...artifacts, turns, clock }),
    deps: new FileDeps(database, name),
    swept: sweep().catch(() => {}), // what cannot be swept waits for the next time
  };
}

/** Nothing that is meant for others begins with a dot: no agent's folder, and no tool's, skill's or artifact's file. */
export function placeAt(folder: string, lifelines: Lifelines): { folder: string; scrap: Scrap } {
  return { folder, scrap: new Scrap(join(folder, '.unfinished'), lifelines) };
}

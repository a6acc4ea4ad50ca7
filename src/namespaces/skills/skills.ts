/** The skills of a storage: Python files that are listed, found, made and removed here, and run only inside kernels. */

import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, checkName } from '../../protocol/namespace-models.ts';
import type { TextStore } from '../../storage/contract.ts';
import type { Methods } from '../contract.ts';
import { checkRoom, MOST_THINGS } from '../room.ts';
import { checkQuery } from '../search/query-limit.ts';
import type { Skill, SkillInfo, SkillProblem, SkillReader } from './contract.ts';
import { withDescription } from './description.ts';
import { invalidSkill } from './invalid.ts';
import { Library } from './library.ts';
import { skillMethods } from './methods.ts';
import { checkSkillName } from './name.ts';
import { checkLength, MOST_PARAMETERS } from './source-limit.ts';

export interface NewSkill {
  readonly name: string;
  readonly source: string;
  /** Kept in the source as its module docstring. Without it, the docstrings of the source tell. */
  readonly description?: string | null;
}

interface SkillsOptions {
  readonly store: TextStore;
  readonly reader: SkillReader;
  readonly most?: number | undefined;
}

const MOST_DESCRIPTION_CHARACTERS = 4000;
const MOST_FOUND = 100;

export class Skills {
  readonly #store: TextStore;
  readonly #reader: SkillReader;
  readonly #library: Library;
  readonly #most: number;

  /** `most`: how many there may be. */
  constructor({ store, reader, most = MOST_THINGS }: SkillsOptions) {
    this.#most = most;
    this.#store = store;
    this.#reader = reader;
    this.#library = new Library(store, reader);
  }

  /** By name. Those that cannot be used are told by `problems`. */
  async list(): Promise<SkillInfo[]> {
    const { skills } = await this.#library.open();
    return [...skills.values()].map(infoOf);
  }

  async problems(): Promise<readonly SkillProblem[]> {
    return (await this.#library.open()).problems;
  }

  async get(name: string): Promise<Skill> {
    const checked = checkIdentifier(name, 'skill');
    const { skills, problems } = await this.#library.open();
    const skill = skills.get(checked);
    if (skill !== undefined) return skill;
    const problem = problems.find((one) => one.name === checked);
    if (problem === undefined) throw notFound(checked);
    throw new CellaError('SKILL_INVALID', `The skill ${checked} cannot be used: ${problem.reason}.`, {
      details: { ...problem },
    });
  }

  /** The best first. Looks at names, descriptions and parameters, also for other words that mean the same. */
  async search(query: string, options: { readonly limit?: number } = {}): Promise<SkillInfo[]> {
    const limit = Math.min(options.limit ?? 5, MOST_FOUND);
    checkQuery(query, 'skills');
    const { skills, index } = await this.#library.open();
    const found = await (await index()).search(query, limit);
    return found
      .map(({ id }) => skills.get(id))
      .filter((skill) => skill !== undefined)
      .map(infoOf);
  }

  /** Nothing of the source is run. NAME_TAKEN where the name is in use, unless `replace` is set. */
  async create(skill: NewSkill, options: { readonly replace?: boolean } = {}): Promise<SkillInfo> {
    const name = checkSkillName(skill.name);
    const text = await this.#complete(checkSource(skill.source), checkDescription(skill.description));
    const reading = await this.#reader.read(text);
    if (reading.parameters.length > MOST_PARAMETERS) {
      throw invalidSkill(`\`run\` has more than ${MOST_PARAMETERS} parameters. Take a list or a dict instead`);
    }
    await checkRoom({
      what: 'skills',
      most: this.#most,
      holds: (count) => this.#store.holds(count),
      replaces: async () => {
        const there = await this.#store.get(name);
        return there !== undefined && !there.shared;
      },
    });
    if (!(await this.#store.put(name, text, { ifAbsent: !options.replace }))) {
      throw new CellaError('NAME_TAKEN', `There is a skill named ${name} already.`, { details: { name } });
    }
    const stored = await this.#store.get(name);
    const { description, parameters } = reading;
    return { name, description, parameters, updatedAt: stored?.updatedAt ?? Date.now() };
  }

  /** Also of one that cannot be used. */
  async delete(name: string): Promise<void> {
    const checked = checkName(name, 'skill');
    if (await this.#store.delete(checked)) return;
    throw (await this.#store.get(checked))?.shared ? notYours(checked) : notFound(checked);
  }

  /** For the code of a kernel. */
  methods(): Methods {
    return skillMethods(this);
  }

  /** The source as it is stored: with its description. */
  async #complete(source: string, description: string): Promise<string> {
    if (description === '') return source;
    const reading = await this.#reader.read(source);
    return checkSource(withDescription(source, description, reading));
  }
}

function infoOf({ source: _, ...info }: Skill): SkillInfo {
  return info;
}

function notYours(name: string): CellaError {
  return new CellaError(
    'FORBIDDEN',
    `The skill ${name} is the operator’s, and for all. Create one of your own instead.`,
    {
      details: { name },
    },
  );
}

function notFound(name: string): CellaError {
  return new CellaError('SKILL_NOT_FOUND', `There is no skill named ${JSON.stringify(name)}.`, { details: { name } });
}

function checkSource(given: string): string {
  const source = given.replace(/^\ufeff/, '');
  if (!source.isWellFormed()) throw invalidSkill('it holds a lone surrogate, which no file can hold');
  if (source.includes('\0')) throw invalidSkill('it holds a null character');
  checkLength(source);
  return source;
}

function checkDescription(given: string | null | undefined): string {
  const description = (given ?? '').trim();
  if (!description.isWellFormed()) throw invalidSkill('its description holds a lone surrogate');
  if (description.length > MOST_DESCRIPTION_CHARACTERS) {
    throw invalidSkill(`its description is longer than ${MOST_DESCRIPTION_CHARACTERS} characters`);
  }
  return description;
}

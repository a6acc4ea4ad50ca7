/** The skills of a storage: lists, searches, creates and deletes Python files that only kernels run. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, checkName } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { TextStore } from '../../storage/contract.ts';
import { type HostMethods, hostMethod, PageRequest, toPage } from '../host-methods.ts';
import { checkCountLimit, checkQuery, DEFAULT_MAX_COUNT } from '../namespace-limits.ts';
import {
  checkSkillName,
  checkSourceLength,
  invalidSkill,
  MAX_PARAMETERS,
  type ParsedSource,
  type Skill,
  type SkillInfo,
  type SkillParameter,
  type SkillParser,
  type SkillProblem,
} from './skill.ts';
import { SkillCatalog } from './skill-catalog.ts';

export interface NewSkill {
  readonly name: string;
  readonly source: string;
  /** Kept in the source as its module docstring. Without it, the docstrings of the source tell. */
  readonly description?: string | null;
}

interface SkillsOptions {
  readonly store: TextStore;
  readonly reader: SkillParser;
  readonly most?: number | undefined;
}

const MOST_DESCRIPTION_CHARACTERS = 4000;
const MOST_FOUND = 100;

export class Skills {
  readonly #store: TextStore;
  readonly #reader: SkillParser;
  readonly #catalog: SkillCatalog;
  readonly #most: number;

  /** `most`: how many there may be. */
  constructor({ store, reader, most = DEFAULT_MAX_COUNT }: SkillsOptions) {
    this.#most = most;
    this.#store = store;
    this.#reader = reader;
    this.#catalog = new SkillCatalog(store, reader);
  }

  /** By name. Those that cannot be used are in `problems`. */
  async list(): Promise<SkillInfo[]> {
    const { skills } = await this.#catalog.open();
    return [...skills.values()].map(infoOf);
  }

  async problems(): Promise<readonly SkillProblem[]> {
    return (await this.#catalog.open()).problems;
  }

  async get(name: string): Promise<Skill> {
    const checked = checkIdentifier(name, 'skill');
    const { skills, problems } = await this.#catalog.open();
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
    const { skills, index } = await this.#catalog.open();
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
    const reading = await this.#reader.parse(text);
    if (reading.parameters.length > MAX_PARAMETERS) {
      throw invalidSkill(`\`run\` has more than ${MAX_PARAMETERS} parameters. Take a list or a dict instead`);
    }
    await checkCountLimit({
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
  methods(): HostMethods {
    return skillMethods(this);
  }

  /** The source as it is stored: with its description. */
  async #complete(source: string, description: string): Promise<string> {
    if (description === '') return source;
    const reading = await this.#reader.parse(source);
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
  checkSourceLength(source);
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

interface SkillCalls {
  list(): Promise<SkillInfo[]>;
  get(name: string): Promise<Skill>;
  search(query: string, options: { readonly limit?: number }): Promise<SkillInfo[]>;
  create(skill: { name: string; source: string; description: string | null }): Promise<SkillInfo>;
  delete(name: string): Promise<void>;
}

const Named = z.strictObject({ name: z.string() });
const Search = z.strictObject({ query: z.string(), limit: z.int().min(1).max(100).default(5) });
const Create = z.strictObject({ name: z.string(), source: z.string(), description: z.string().nullable() });

export function skillMethods(skills: SkillCalls): HostMethods {
  return {
    'skills.list': hostMethod(PageRequest, async ({ after, limit }) => {
      const rest = (await skills.list()).filter(({ name }) => name > after);
      return await toPage(rest, toPyInfo, limit);
    }),
    'skills.get': hostMethod(Named, async ({ name }) => {
      const skill = await skills.get(name);
      return { ...toPyInfo(skill), source: skill.source };
    }),
    'skills.search': hostMethod(Search, async ({ query, limit }) => {
      return (await skills.search(query, { limit })).map(toPyInfo);
    }),
    'skills.create': hostMethod(Create, async (skill) => toPyInfo(await skills.create(skill))),
    'skills.delete': hostMethod(Named, async ({ name }) => {
      await skills.delete(name);
      return null;
    }),
  };
}

function toPyInfo({ name, description, parameters, updatedAt, shared }: SkillInfo): { [name: string]: PyValue } {
  return { name, description, parameters: parameters.map(toPyParameter), updatedAt, ...(shared && { shared }) };
}

/** A field that is not there is left out: the wire has no `undefined`. */
function toPyParameter({ name, kind, annotation, default: preset, required }: SkillParameter): PyValue {
  return {
    name,
    kind,
    ...(annotation !== undefined && { annotation }),
    ...(preset !== undefined && { default: preset }),
    required,
  };
}

/** In place of the docstring that is there; else before the first statement, where `from __future__` allows it too. */
export function withDescription(source: string, description: string, { docstring }: ParsedSource): string {
  const quoted = quote(description);
  if (docstring !== null) return source.slice(0, docstring.start) + quoted + source.slice(docstring.end);
  const head = /^(?:#!.*\r?\n)?(?:#.*coding[:=].*\r?\n)?/.exec(source)?.[0] ?? '';
  return `${head}${quoted}\n\n${source.slice(head.length)}`;
}

/** A literal that ends where we end it, whatever the text holds. Line breaks stay, for the eyes of a person. */
function quote(text: string): string {
  const escaped = text
    .replaceAll('\r\n', '\n')
    .replaceAll('\\', '\\\\')
    .replace(/"(?="|$)/g, '\\"')
    .replace(/[^\P{Cc}\n\t]/gu, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"""${escaped}"""`;
}

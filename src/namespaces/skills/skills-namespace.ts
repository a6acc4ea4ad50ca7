/** The skills of a storage: lists, searches, creates and deletes Python files that only kernels run. */

import { z } from 'zod';
import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import {
  checkIdentifier,
  checkName,
  type NewSkill,
  type Skill,
  type SkillInfo,
  type SkillParameter,
  type SkillProblem,
} from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { TextStore } from '../../storage/contract.ts';
import {
  checkCountLimit,
  checkQuery,
  DEFAULT_MAX_COUNT,
  type HostMethods,
  hostMethod,
  PageRequest,
  toPage,
} from '../host-methods.ts';
import { bytesOf, SkillCatalog } from './skill-catalog.ts';
import {
  checkSkillName,
  checkSourceLength,
  invalidSkill,
  MAX_PARAMETERS,
  type ParsedSource,
  type SkillParser,
} from './skill-parser.ts';

interface SkillsOptions {
  readonly store: TextStore;
  readonly reader: SkillParser;
  readonly most?: number | undefined;
  readonly mostBytes?: number | undefined;
}

const MOST_DESCRIPTION_CHARACTERS = 4000;
const MOST_FOUND = 100;
/** Limit for all skills of one owner: their sources, and their entries in lists. */
const MOST_BYTES = 32 * 1024 * 1024;

export class Skills {
  readonly #store: TextStore;
  readonly #reader: SkillParser;
  readonly #catalog: SkillCatalog;
  readonly #most: number;
  readonly #mostBytes: number;
  readonly #admissions = new SerialQueue();
  /** An upper bound for the current total, as far as this process knows; undefined if not measured yet. */
  #bytes: number | undefined;

  /** `most`: the most skills. */
  constructor({ store, reader, most = DEFAULT_MAX_COUNT, mostBytes = MOST_BYTES }: SkillsOptions) {
    this.#most = most;
    this.#mostBytes = mostBytes;
    this.#store = store;
    this.#reader = reader;
    this.#catalog = new SkillCatalog(store, reader);
  }

  /** All skills, sorted by name. Those that cannot be used are in `problems`. */
  async list(): Promise<SkillInfo[]> {
    const { skills } = await this.#catalog.open();
    return [...skills.values()];
  }

  async problems(): Promise<readonly SkillProblem[]> {
    return (await this.#catalog.open()).problems;
  }

  async get(name: string): Promise<Skill> {
    const checked = checkIdentifier(name, 'skill');
    const found = await this.#catalog.get(checked);
    if (!found) throw notFound(checked);
    const { source, read } = found;
    if (read.kind === 'skill') return { ...read.skill, source };
    throw new CellaError('SKILL_INVALID', `The skill ${checked} cannot be used: ${read.problem.reason}.`, {
      details: { ...read.problem },
    });
  }

  /** Matching skills, best first. Searches names, descriptions and parameters, also for synonyms. */
  async search(query: string, options: { readonly limit?: number } = {}): Promise<SkillInfo[]> {
    const limit = Math.min(options.limit ?? 5, MOST_FOUND);
    checkQuery(query, 'skills');
    const { skills, index } = await this.#catalog.open();
    const found = await (await index()).search(query, limit);
    return found.map(({ id }) => skills.get(id)).filter((skill) => skill !== undefined);
  }

  /** Saves a skill without running it. Throws NAME_TAKEN if the name is in use, unless `replace` is set. */
  async create(skill: NewSkill, options: { readonly replace?: boolean } = {}): Promise<SkillInfo> {
    const name = checkSkillName(skill.name);
    const text = await this.#complete(checkSource(skill.source), checkDescription(skill.description));
    const reading = await this.#reader.parse(text);
    if (reading.parameters.length > MAX_PARAMETERS) {
      throw invalidSkill(`\`run\` has more than ${MAX_PARAMETERS} parameters. Use a list or a dict instead`);
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
    const { description, parameters } = reading;
    await this.#admissions.run(() => this.#admit(name, bytesOf(text, { name, description, parameters })));
    if (!(await this.#store.put(name, text, { ifAbsent: !options.replace }))) {
      throw new CellaError('NAME_TAKEN', `There is a skill named ${name} already.`, { details: { name } });
    }
    const stored = await this.#store.get(name);
    return { name, description, parameters, updatedAt: stored?.updatedAt ?? Date.now() };
  }

  /** Deletes a skill, even if it cannot be used. */
  async delete(name: string): Promise<void> {
    const checked = checkName(name, 'skill');
    if (await this.#store.delete(checked)) return;
    throw (await this.#store.get(checked))?.shared ? notYours(checked) : notFound(checked);
  }

  /** The methods for the code of a kernel. */
  methods(): HostMethods {
    return skillMethods(this);
  }

  /** Throws QUOTA_EXCEEDED. The known total can be too large, so it is measured again before a refusal. */
  async #admit(name: string, more: number): Promise<void> {
    if (this.#bytes === undefined || this.#bytes + more > this.#mostBytes) {
      const { bytes } = await this.#catalog.open();
      let all = -(bytes.get(name) ?? 0);
      for (const one of bytes.values()) all += one;
      this.#bytes = all;
      if (all + more > this.#mostBytes) throw tooLarge(this.#mostBytes, all, more);
    }
    this.#bytes += more;
  }

  /** The source to store, with the description as docstring. */
  async #complete(source: string, description: string): Promise<string> {
    if (description === '') return source;
    const reading = await this.#reader.parse(source);
    return checkSource(withDescription(source, description, reading));
  }
}

function tooLarge(limit: number, used: number, asked: number): CellaError {
  const message = `All skills together can have ${limit} bytes, with their descriptions: they have ${used}, and this one adds ${asked}.`;
  return new CellaError('QUOTA_EXCEEDED', message, {
    advice: 'Delete some that are no longer needed.',
    details: { quota: 'skillBytes', limit, used, asked },
  });
}

function notYours(name: string): CellaError {
  return new CellaError(
    'FORBIDDEN',
    `The skill ${name} belongs to the operator and is shared by all users. Create your own instead.`,
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
  if (!source.isWellFormed()) throw invalidSkill('it contains a lone surrogate, which a file cannot store');
  if (source.includes('\0')) throw invalidSkill('it contains a null character');
  checkSourceLength(source);
  return source;
}

function checkDescription(given = ''): string {
  const description = given.trim();
  if (!description.isWellFormed()) throw invalidSkill('its description contains a lone surrogate');
  if (description.length > MOST_DESCRIPTION_CHARACTERS) {
    throw invalidSkill(`its description is longer than ${MOST_DESCRIPTION_CHARACTERS} characters`);
  }
  return description;
}

const Named = z.strictObject({ name: z.string() });
const Search = z.strictObject({ query: z.string(), limit: z.int().min(1).max(100).default(5) });
const Create = z.strictObject({ name: z.string(), source: z.string(), description: z.string().nullable() });

function skillMethods(skills: Skills): HostMethods {
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
    'skills.create': hostMethod(Create, async ({ name, source, description }) =>
      toPyInfo(await skills.create({ name, source, description: description ?? undefined })),
    ),
    'skills.delete': hostMethod(Named, async ({ name }) => {
      await skills.delete(name);
      return null;
    }),
  };
}

function toPyInfo({ name, description, parameters, updatedAt, shared }: SkillInfo): { [name: string]: PyValue } {
  return { name, description, parameters: parameters.map(toPyParameter), updatedAt, ...(shared && { shared }) };
}

/** Leaves out missing fields, as `undefined` cannot be sent. */
function toPyParameter({ name, kind, annotation, default: preset, required }: SkillParameter): PyValue {
  return {
    name,
    kind,
    ...(annotation !== undefined && { annotation }),
    ...(preset !== undefined && { default: preset }),
    required,
  };
}

/** Replaces an existing docstring, else inserts one before the first statement, also before `from __future__`. */
function withDescription(source: string, description: string, { docstring }: ParsedSource): string {
  const quoted = quote(description);
  if (docstring !== null) return source.slice(0, docstring.start) + quoted + source.slice(docstring.end);
  const head = /^(?:#!.*\r?\n)?(?:#.*coding[:=].*\r?\n)?/.exec(source)?.[0] ?? '';
  return `${head}${quoted}\n\n${source.slice(head.length)}`;
}

/** A string literal that no text can end early. Keeps line breaks, so that it stays readable. */
function quote(text: string): string {
  const escaped = text
    .replaceAll('\r\n', '\n')
    .replaceAll('\\', '\\\\')
    .replace(/"(?="|$)/g, '\\"')
    .replace(/[^\P{Cc}\n\t]/gu, (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, '0')}`);
  return `"""${escaped}"""`;
}

/** All skills of a storage, parsed once and again only if a text has changed. */

import { inSlices } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { StoredText, TextStore } from '../../storage/contract.ts';
import { TextIndex } from '../search/text-index.ts';
import { checkSkillName, MAX_PARAMETERS, type Skill, type SkillParser, type SkillProblem } from './skill.ts';

export interface SkillSnapshot {
  readonly skills: ReadonlyMap<string, Skill>;
  readonly problems: readonly SkillProblem[];
  /** Made when it is first asked for. */
  readonly index: () => Promise<TextIndex>;
}

type ParsedSkill =
  | { readonly kind: 'skill'; readonly skill: Skill }
  | { readonly kind: 'problem'; readonly problem: SkillProblem };

/** Characters of the names of one skill's parameters. */
const MOST_SEARCHED = 20_000;

export class SkillCatalog {
  readonly #store: TextStore;
  readonly #reader: SkillParser;
  /** By the text that they were read from. */
  #known = new Map<string, { readonly stored: StoredText; readonly read: ParsedSkill }>();
  #open: { readonly version: string; readonly snapshot: Promise<SkillSnapshot> } | undefined;

  constructor(store: TextStore, reader: SkillParser) {
    this.#store = store;
    this.#reader = reader;
  }

  /** What the storage holds now. Those who ask at once wait for one reading. */
  async open(): Promise<SkillSnapshot> {
    const version = await this.#store.version();
    if (this.#open?.version === version) return await this.#open.snapshot;
    const opened = { version, snapshot: this.#read() };
    this.#open = opened;
    try {
      return await opened.snapshot;
    } catch (error) {
      if (this.#open === opened) this.#open = undefined;
      throw error;
    }
  }

  async #read(): Promise<SkillSnapshot> {
    const known = new Map<string, { readonly stored: StoredText; readonly read: ParsedSkill }>();
    const skills = new Map<string, Skill>();
    const problems: SkillProblem[] = [];
    for await (const stored of inSlices(await this.#store.list())) {
      const before = this.#known.get(stored.name);
      const read = before && isSame(before.stored, stored) ? before.read : await this.#readOne(stored);
      known.set(stored.name, { stored, read });
      if (read.kind === 'skill') skills.set(stored.name, read.skill);
      else problems.push(read.problem);
    }
    this.#known = known;
    let index: Promise<TextIndex> | undefined;
    return { skills, problems, index: () => (index ??= indexOf(skills)) };
  }

  /** A person may have changed the file: one that is broken does not keep the others from loading. */
  async #readOne({ name, text, updatedAt, where, shared }: StoredText): Promise<ParsedSkill> {
    try {
      if (checkSkillName(name) !== name) throw new CellaError('INVALID_NAME', 'Its name is not in normal form');
      const { description, parameters: read } = await this.#reader.parse(text);
      const parameters = read.slice(0, MAX_PARAMETERS);
      const facts = { name, description, parameters, updatedAt, shared };
      return { kind: 'skill', skill: { ...facts, source: text } };
    } catch (error) {
      if (!(error instanceof CellaError)) throw error;
      if (error.code !== 'SKILL_INVALID' && error.code !== 'INVALID_NAME') throw error;
      const { line, reason } = error.details;
      return {
        kind: 'problem',
        problem: {
          name,
          where,
          line: typeof line === 'number' ? line : undefined,
          reason: typeof reason === 'string' ? reason : error.message.replace(/\.$/, ''),
        },
      };
    }
  }
}

function isSame(one: StoredText, other: StoredText): boolean {
  return one.text === other.text && one.updatedAt === other.updatedAt && one.shared === other.shared;
}

function indexOf(skills: ReadonlyMap<string, Skill>): Promise<TextIndex> {
  const documents = [...skills.values()].map(({ name, description, parameters }) => ({
    id: name,
    title: name,
    text: description,
    extra: parameters
      .map((parameter) => parameter.name)
      .join(' ')
      .slice(0, MOST_SEARCHED),
  }));
  return TextIndex.of(documents);
}

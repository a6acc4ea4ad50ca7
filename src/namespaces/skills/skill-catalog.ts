/** The parsed skills of a storage. Each is parsed once per change. */

import { createHash } from 'node:crypto';
import { inSlices } from '../../lib/event-loop.ts';
import { SerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SkillInfo, SkillProblem } from '../../protocol/namespace-models.ts';
import type { StoredText, TextStore } from '../../storage/contract.ts';
import { TextIndex } from '../search/text-index.ts';
import { checkSkillName, MAX_PARAMETERS, type SkillParser } from './skill-parser.ts';

interface SkillSnapshot {
  readonly skills: ReadonlyMap<string, SkillInfo>;
  readonly problems: readonly SkillProblem[];
  /** The weight of each skill that is not shared, by name. Counts towards the limit. */
  readonly bytes: ReadonlyMap<string, number>;
  /** Created when first needed. */
  readonly index: () => Promise<TextIndex>;
}

type ParsedSkill =
  | { readonly kind: 'skill'; readonly skill: SkillInfo }
  | { readonly kind: 'problem'; readonly problem: SkillProblem };

/** A parsed skill, without its source: all sources together may be large. */
interface KnownSkill {
  readonly digest: string;
  readonly bytes: number;
  readonly read: ParsedSkill;
}

/** The most characters of the names of one skill's parameters. */
const MOST_SEARCHED = 20_000;

export class SkillCatalog {
  readonly #store: TextStore;
  readonly #reader: SkillParser;
  #known: ReadonlyMap<string, KnownSkill> = new Map();
  readonly #reads = new SerialQueue();
  #open: { readonly version: string; readonly snapshot: Promise<SkillSnapshot> } | undefined;

  constructor(store: TextStore, reader: SkillParser) {
    this.#store = store;
    this.#reader = reader;
  }

  /** The skills in the storage now. Concurrent calls share one read. */
  async open(): Promise<SkillSnapshot> {
    const version = await this.#store.version();
    if (this.#open?.version === version) return await this.#open.snapshot;
    const opened = { version, snapshot: this.#reads.run(() => this.#readAll()) };
    this.#open = opened;
    try {
      return await opened.snapshot;
    } catch (error) {
      if (this.#open === opened) this.#open = undefined;
      throw error;
    }
  }

  /** The current text of one skill, parsed. Undefined if there is none. */
  async get(name: string): Promise<{ readonly source: string; readonly read: ParsedSkill } | undefined> {
    const stored = await this.#store.get(name);
    return stored && { source: stored.text, read: (await this.#know(stored)).read };
  }

  async #readAll(): Promise<SkillSnapshot> {
    const known = new Map<string, KnownSkill>();
    const skills = new Map<string, SkillInfo>();
    const problems: SkillProblem[] = [];
    const bytes = new Map<string, number>();
    for await (const stored of inSlices(await this.#store.list())) {
      const one = await this.#know(stored);
      known.set(stored.name, one);
      if (!stored.shared) bytes.set(stored.name, one.bytes);
      if (one.read.kind === 'skill') skills.set(stored.name, one.read.skill);
      else problems.push(one.read.problem);
    }
    this.#known = known;
    let index: Promise<TextIndex> | undefined;
    return { skills, problems, bytes, index: () => (index ??= indexOf(skills)) };
  }

  async #know(stored: StoredText): Promise<KnownSkill> {
    const digest = digestOf(stored);
    const before = this.#known.get(stored.name);
    if (before?.digest === digest) return before;
    const read = await this.#readOne(stored);
    return { digest, bytes: bytesOf(stored.text, read.kind === 'skill' ? read.skill : read.problem), read };
  }

  /** A file that is not valid does not prevent the others from loading. */
  async #readOne({ name, text, updatedAt, where, shared }: StoredText): Promise<ParsedSkill> {
    try {
      if (checkSkillName(name) !== name) throw new CellaError('INVALID_NAME', 'Its name is not normalized');
      const { description, parameters: read } = await this.#reader.parse(text);
      const parameters = read.slice(0, MAX_PARAMETERS);
      const facts = { name, description, parameters, updatedAt, shared };
      return { kind: 'skill', skill: facts };
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

function digestOf({ text, updatedAt, shared, where }: StoredText): string {
  return createHash('sha256')
    .update(JSON.stringify([updatedAt, shared, where]))
    .update(text)
    .digest('base64');
}

/** The weight of a skill: its source, and its entry in lists, which is held in memory. */
export function bytesOf(source: string, metadata: object): number {
  return Buffer.byteLength(source) + Buffer.byteLength(JSON.stringify(metadata));
}

function indexOf(skills: ReadonlyMap<string, SkillInfo>): Promise<TextIndex> {
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

/** The rules of users and sessions that allow a tool call without asking: what they compare, and how their patterns match. */

import type { z } from 'zod';
import { inSlices } from '../../lib/event-loop.ts';
import { KeyedSerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { isJsonLonger } from '../../protocol/json-pieces.ts';
import { type NewRule, PermissionRule } from '../../protocol/permission.ts';
import { Collection } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { newSortableId } from '../ids.ts';
import type { RuledCall } from './described-permissions.ts';

const COLLECTION = 'permission-rules';
/** Per user, or per session. */
const MAX_RULES = 200;

/** The user or session that the rules belong to. */
type RulesOwner = { readonly user: string } | { readonly session: string };
type RuleToAdd = NewRule & Pick<RuledCall, 'definition'>;

/** Per user or session across all stores, one at a time, so that two concurrent requests cannot both take the last place. */
const additions = new KeyedSerialQueue<string>();

export class PermissionRuleStore {
  readonly #rules: Collection<z.infer<typeof PermissionRule>>;
  readonly #of: RulesOwner;

  constructor(documents: DocumentStore, of: RulesOwner) {
    this.#rules = new Collection(documents, COLLECTION, PermissionRule);
    this.#of = of;
  }

  /** Oldest first. */
  list(): Promise<PermissionRule[]> {
    return this.#rules.list(this.#id(''));
  }

  /** The first rule that allows the call. */
  async find({ tool, target, definition }: RuledCall): Promise<PermissionRule | undefined> {
    for await (const rule of inSlices(await this.list())) {
      const isForIt = rule.tool === tool && (rule.definition === undefined || rule.definition === definition);
      if (isForIt && matches(rule.pattern, target)) return rule;
    }
    return undefined;
  }

  /** Throws `INVALID_REQUEST` for a bad pattern. Returns an equal rule if there is one. */
  async add({ tool, pattern, definition }: RuleToAdd, by: string): Promise<PermissionRule> {
    checkPattern(pattern);
    return await additions.run(this.#id(''), () => this.#add({ tool, pattern, definition }, by));
  }

  async #add({ tool, pattern, definition }: RuleToAdd, by: string): Promise<PermissionRule> {
    const there = await this.list();
    const same = there.find((rule) => rule.tool === tool && rule.pattern === pattern && rule.definition === definition);
    if (same) return same;
    if (there.length >= MAX_RULES) {
      throw new CellaError('QUOTA_EXCEEDED', `There are already ${MAX_RULES} rules.`, { details: { most: MAX_RULES } });
    }
    const session = 'session' in this.#of ? { session: this.#of.session } : {};
    const about = definition === undefined ? {} : { definition };
    const rule = { id: newSortableId('rul'), tool, pattern, ...about, ...session, by, createdAt: Date.now() };
    await this.#rules.put(this.#id(rule.id), rule);
    return rule;
  }

  /** Throws `NOT_FOUND`. */
  async delete(id: string): Promise<void> {
    if (await this.#rules.delete(this.#id(id))) return;
    throw new CellaError('NOT_FOUND', `There is no rule ${JSON.stringify(id.slice(0, 100))}.`);
  }

  async deleteAll(): Promise<void> {
    await this.#rules.deleteAll(this.#id(''));
  }

  #id(rule: string): string {
    return 'user' in this.#of ? `user/${this.#of.user}/${rule}` : `session/${this.#of.session}/${rule}`;
  }
}

/** A `command` goes to a shell; a `path` names a file; a `text` is anything else. */
export interface RuleTarget {
  readonly kind: 'command' | 'path' | 'text';
  readonly text: string;
}

type PatternToken = string | { readonly wild: 'one' | 'many' | 'deep' };

/** Matches every use of a tool. */
const ANY = '**';
/** The limit of a pattern and of a text: longer ones match no rule. */
const MOST_CHARACTERS = 4000;
/** Stands for any text that is longer. */
const TOO_LONG = ' '.repeat(MOST_CHARACTERS + 1);
/** The limits of a pattern with wildcards. */
const MOST_TOKENS = 1000;
const MOST_WILDCARDS = 64;
/** What a wildcard matches in a command: only characters without a meaning in a shell. */
const PLAIN = /^[A-Za-z0-9_./:=@%+, -]$/;
/** Invisible or misleading characters. */
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]/u;

/** A pattern that matches exactly this text. */
export function exactPattern(text: string): string {
  return text.replaceAll(/[\\*?]/g, (sign) => `\\${sign}`);
}

/** Like `exactPattern`, but undefined if no rule may have that pattern. */
export function exactRulePattern(text: string): string | undefined {
  if (text.length > MOST_CHARACTERS) return undefined;
  const pattern = exactPattern(text);
  return patternProblem(pattern) === undefined ? pattern : undefined;
}

/** Throws `INVALID_REQUEST` for a pattern that people could misread. */
export function checkPattern(pattern: string): void {
  const problem = patternProblem(pattern);
  if (problem === undefined) return;
  const advice = 'See docs/permissions.md. You can still allow the request once.';
  throw new CellaError('INVALID_REQUEST', `Invalid pattern: ${problem}.`, { advice });
}

function patternProblem(pattern: string): string | undefined {
  if (pattern.trim() === '') return 'it is empty';
  if (HIDDEN.test(pattern)) return 'it has line breaks or invisible characters';
  if (pattern.length > MOST_CHARACTERS) return `it has more than ${MOST_CHARACTERS} characters`;
  if ((pattern.match(/[*?]/g) ?? []).length > MOST_WILDCARDS) return `it has more than ${MOST_WILDCARDS} wildcards`;
  return undefined;
}

export function matches(pattern: string, { kind, text }: RuleTarget): boolean {
  if (pattern === ANY) return true;
  if (patternProblem(pattern) !== undefined || text.length > MOST_CHARACTERS || HIDDEN.test(text)) return false;
  const tokens = tokensOf(pattern, kind);
  // A pattern for commands must name the program.
  if (kind === 'command' && typeof tokens[0] !== 'string') return false;
  if (kind === 'path' && !isNormalised(text)) return false;
  if (tokens.every((token) => typeof token === 'string')) return tokens.join('') === text;
  return tokens.length <= MOST_TOKENS && matchTokens(tokens, [...text], kind);
}

/** `*` and `?` stand for themselves after a backslash, and so does a backslash. */
function tokensOf(pattern: string, kind: RuleTarget['kind']): PatternToken[] {
  const parts = pattern.match(/\\[\\*?]|\*\*|./gsu) ?? [];
  return parts.flatMap((part): PatternToken[] => {
    if (part === '**') return kind === 'path' ? [{ wild: 'deep' }] : [{ wild: 'many' }];
    if (part === '*') return [{ wild: 'many' }];
    if (part === '?') return [{ wild: 'one' }];
    return [part.length === 2 && part.startsWith('\\') ? part.slice(1) : part];
  });
}

/** Places in a pattern, one bit each. */
type Places = Uint32Array<ArrayBuffer>;

/** Tracks all places in the pattern at once, 32 in a step, so that the time is linear and short. */
function matchTokens(
  tokens: readonly PatternToken[],
  characters: readonly string[],
  kind: RuleTarget['kind'],
): boolean {
  const all = joinWildcards(tokens);
  const words = (all.length >>> 5) + 1;
  const nowhere: Places = new Uint32Array(words);
  const { literals, wilds } = placesOf(all, words);
  let held: Places = new Uint32Array(words);
  held[0] = 1;
  for (const [index, character] of characters.entries()) {
    const literal = literals.get(character) ?? nowhere;
    const may = (wild: keyof typeof wilds) =>
      standsFor(wild, character, characters[index - 1], kind) ? wilds[wild] : nowhere;
    const [one, many, deep] = [may('one'), may('many'), may('deep')];
    const next: Places = new Uint32Array(words);
    let [skips, moves] = [0, 0];
    for (let word = 0; word < words; word++) {
      const at = (places: Places) => places[word] ?? 0;
      // A wildcard may match nothing.
      const skipped = at(held) & (at(wilds.many) | at(wilds.deep));
      const here = at(held) | (skipped << 1) | skips;
      const moved = here & (at(literal) | at(one));
      next[word] = (moved << 1) | moves | (here & (at(many) | at(deep)));
      [skips, moves] = [skipped >>> 31, moved >>> 31];
    }
    held = next;
  }
  const end = all.length;
  return hasPlace(held, end) || (isRepeating(all[end - 1]) && hasPlace(held, end - 1));
}

/** Several wildcards in a row match what the widest of them does. `?` stays. */
function joinWildcards(tokens: readonly PatternToken[]): PatternToken[] {
  const joined: PatternToken[] = [];
  for (const token of tokens) {
    const last = joined.at(-1);
    if (!isRepeating(token) || !isRepeating(last)) joined.push(token);
    else if (token.wild === 'deep') joined[joined.length - 1] = token;
  }
  return joined;
}

function placesOf(tokens: readonly PatternToken[], words: number) {
  const literals = new Map<string, Places>();
  const wilds = { one: new Uint32Array(words), many: new Uint32Array(words), deep: new Uint32Array(words) };
  for (const [place, token] of tokens.entries()) {
    const places = typeof token === 'string' ? (literals.get(token) ?? new Uint32Array(words)) : wilds[token.wild];
    if (typeof token === 'string') literals.set(token, places);
    places[place >>> 5] = (places[place >>> 5] ?? 0) | (1 << (place & 31));
  }
  return { literals, wilds };
}

function isRepeating(token: PatternToken | undefined): token is { readonly wild: 'many' | 'deep' } {
  return typeof token === 'object' && token.wild !== 'one';
}

const hasPlace = (places: Places, place: number): boolean => ((places[place >>> 5] ?? 0) & (1 << (place & 31))) !== 0;

function standsFor(
  wild: 'one' | 'many' | 'deep',
  character: string,
  before: string | undefined,
  kind: RuleTarget['kind'],
) {
  if (kind !== 'path') return PLAIN.test(character);
  // Wildcards do not match hidden files.
  if (character === '.' && (before === undefined || before === '/')) return false;
  return character !== '/' || wild === 'deep';
}

/** Without empty, `.` and `..` segments. */
function isNormalised(path: string): boolean {
  return path
    .replace(/^\//, '')
    .split('/')
    .every((part) => part !== '' && part !== '.' && part !== '..');
}

interface CalledTool {
  readonly tool: string;
  readonly summary: string;
  readonly input?: unknown;
}

/**
 * Known tools of agents: the field that a rule compares, and the fields that it ignores. If the input has any other field, and
 * for all other tools, a rule compares the whole input, because it is unknown what the rest changes.
 */
const KNOWN_TOOLS = new Map<string, readonly [kind: RuleTarget['kind'], field: string, rest: readonly string[]]>([
  ['Bash', ['command', 'command', ['description', 'timeout']]],
  ['Read', ['path', 'file_path', ['offset', 'limit', 'pages']]],
  ['Edit', ['path', 'file_path', ['old_string', 'new_string', 'replace_all']]],
  ['MultiEdit', ['path', 'file_path', ['edits']]],
  ['Write', ['path', 'file_path', ['content']]],
  ['NotebookEdit', ['path', 'notebook_path', ['cell_id', 'cell_type', 'edit_mode', 'new_source']]],
  ['WebFetch', ['text', 'url', ['prompt']]],
  ['WebSearch', ['text', 'query', ['allowed_domains', 'blocked_domains']]],
]);

const NAME = /^[A-Za-z0-9_.:/-]{1,200}$/;
/** The prefix of kernel tools, so that no agent tool can pass for one. */
const OF_KERNEL = 'tools.';

/** Undefined if no rule can match the call. */
export function agentRuleTarget({ tool, summary, input }: CalledTool): RuleTarget | undefined {
  if (!NAME.test(tool) || tool.startsWith(OF_KERNEL)) return undefined;
  if (input === undefined || input === null) return { kind: 'text', text: summary };
  const [kind, field, rest = []] = KNOWN_TOOLS.get(tool) ?? [];
  if (kind === undefined || field === undefined || !hasOnly(input, [field, ...rest])) {
    return { kind: kind ?? 'text', text: isJsonLonger(input, MOST_CHARACTERS) ? TOO_LONG : JSON.stringify(input) };
  }
  const value: unknown = Object.hasOwn(input, field) ? Reflect.get(input, field) : undefined;
  if (typeof value !== 'string') return undefined;
  return { kind, text: value.length > MOST_CHARACTERS ? TOO_LONG : value };
}

/** Ignores fields with empty values. */
function hasOnly(input: object, names: readonly string[]): boolean {
  for (const name in input) if (!names.includes(name) && Reflect.get(input, name)) return false;
  return true;
}

/** The host writes the summary of a kernel tool's call, which is complete. */
export function kernelToolRuleTarget({ summary }: CalledTool): RuleTarget {
  return { kind: 'command', text: summary };
}

export function kernelToolName(tool: string, recipe: string | undefined): string {
  return `${OF_KERNEL}${recipe === undefined ? tool : `${tool}.${recipe}`}`;
}

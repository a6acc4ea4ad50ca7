/** The rules of users and sessions that allow a tool call without asking. */

import type { z } from 'zod';
import { KeyedSerialQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type NewRule, PermissionRule } from '../../protocol/permission.ts';
import { Collection } from '../../storage/collection.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { newRuleId } from '../ids.ts';
import type { RuledCall } from './described-permissions.ts';
import { checkPattern, matches } from './rule-patterns.ts';

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
  async list(): Promise<PermissionRule[]> {
    const rules: PermissionRule[] = [];
    for await (const { value } of this.#rules.all(this.#id(''))) rules.push(value);
    return rules;
  }

  /** The first rule that allows the call. */
  async find({ tool, target, definition }: RuledCall): Promise<PermissionRule | undefined> {
    return (await this.list()).find(
      (rule) =>
        rule.tool === tool &&
        (rule.definition === undefined || rule.definition === definition) &&
        matches(rule.pattern, target),
    );
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
      throw new CellaError('QUOTA_EXCEEDED', `There are ${MAX_RULES} rules already.`, { details: { most: MAX_RULES } });
    }
    const session = 'session' in this.#of ? { session: this.#of.session } : {};
    const about = definition === undefined ? {} : { definition };
    const rule = { id: newRuleId(), tool, pattern, ...about, ...session, by, createdAt: Date.now() };
    await this.#rules.put(this.#id(rule.id), rule);
    return rule;
  }

  /** Throws `NOT_FOUND`. */
  async delete(id: string): Promise<void> {
    if (await this.#rules.delete(this.#id(id))) return;
    throw new CellaError('NOT_FOUND', `There is no rule ${JSON.stringify(id.slice(0, 100))}.`);
  }

  async deleteAll(): Promise<void> {
    for (const { id } of await this.list()) await this.#rules.delete(this.#id(id));
  }

  #id(rule: string): string {
    return 'user' in this.#of ? `user/${this.#of.user}/${rule}` : `session/${this.#of.session}/${rule}`;
  }
}

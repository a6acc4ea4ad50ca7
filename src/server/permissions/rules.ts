/** Rules that allow by themselves: those of a user, and those of a session, which end with it. */

import type { z } from 'zod';
import { type NewRule, PermissionRule } from '../../protocol/api/agent-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DocumentStore } from '../../storage/contract.ts';
import { Collection } from '../access/collection.ts';
import { newRuleId } from '../ids.ts';
import type { RuleBook } from './contract.ts';
import { checkPattern, matches } from './pattern.ts';
import type { RuledBy } from './subject.ts';

const COLLECTION = 'permission-rules';
/** Of one user, or of one session. */
const MOST = 200;

/** Whose rules: a user's, or a session's. */
export type RulesOf = { readonly user: string } | { readonly session: string };

export class Rules implements RuleBook {
  readonly #rules: Collection<z.infer<typeof PermissionRule>>;
  readonly #of: RulesOf;

  constructor(documents: DocumentStore, of: RulesOf) {
    this.#rules = new Collection(documents, COLLECTION, PermissionRule);
    this.#of = of;
  }

  /** Oldest first. */
  async list(): Promise<PermissionRule[]> {
    const rules: PermissionRule[] = [];
    for await (const { value } of this.#rules.all(this.#id(''))) rules.push(value);
    return rules;
  }

  /** The one that allows it. */
  async find({ tool, subject, definition }: RuledBy): Promise<PermissionRule | undefined> {
    return (await this.list()).find(
      (rule) =>
        rule.tool === tool &&
        (rule.definition === undefined || rule.definition === definition) &&
        matches(rule.pattern, subject),
    );
  }

  async add({ tool, pattern, definition }: NewRule & Pick<RuledBy, 'definition'>, by: string): Promise<PermissionRule> {
    checkPattern(pattern);
    const there = await this.list();
    const same = there.find((rule) => rule.tool === tool && rule.pattern === pattern && rule.definition === definition);
    if (same) return same;
    if (there.length >= MOST) {
      throw new CellaError('QUOTA_EXCEEDED', `There are ${MOST} rules already.`, { details: { most: MOST } });
    }
    const session = 'session' in this.#of ? { session: this.#of.session } : {};
    const about = definition === undefined ? {} : { definition };
    const rule = { id: newRuleId(), tool, pattern, ...about, ...session, by, createdAt: Date.now() };
    await this.#rules.put(this.#id(rule.id), rule);
    return rule;
  }

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

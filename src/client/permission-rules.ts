/** What you have allowed for good at a server, in whichever session. */

import { AddRule, DeleteRule, ListRules } from '../protocol/api/agent-routes.ts';
import type { NewRule, PermissionRule } from '../protocol/permission.ts';
import type { Link } from './link.ts';

export class PermissionRules {
  readonly #link: Link;

  constructor(link: Link) {
    this.#link = link;
  }

  /** Oldest first. */
  async list(): Promise<readonly PermissionRule[]> {
    return (await this.#link.call(ListRules)).rules;
  }

  add(rule: NewRule): Promise<PermissionRule> {
    return this.#link.call(AddRule, { body: rule });
  }

  async delete(id: string): Promise<void> {
    await this.#link.call(DeleteRule, { params: { rule: id } });
  }
}

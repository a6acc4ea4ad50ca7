/** The name of a skill: it is called as `skills.name(...)`, so that no method of `skills` may have it. */

import { checkIdentifier } from '../../protocol/namespace-models.ts';

const METHODS: ReadonlySet<string> = new Set(['list', 'get', 'search', 'create', 'delete', 'invoke']);

export function checkSkillName(name: unknown): string {
  return checkIdentifier(name, 'skill', METHODS);
}

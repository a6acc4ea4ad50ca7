/** What a skill is: its description, the parser port, and the rules for names and sources. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier, SkillParameter } from '../../protocol/namespace-models.ts';

/** The most parameters of `run`. A skill that was stored before this limit keeps the first ones. */
export const MAX_PARAMETERS = 255;

export const ParsedSource = z.strictObject({
  /** The module's docstring, else the first paragraph of that of `run`, else empty. */
  description: z.string(),
  /** If there is one more than the limit, the skill has too many. */
  parameters: z.array(z.strictObject(SkillParameter.shape)).max(MAX_PARAMETERS + 1),
  /** The place of the module's docstring in the source. */
  docstring: z.strictObject({ start: z.int().min(0), end: z.int().min(0) }).nullable(),
});
export type ParsedSource = z.infer<typeof ParsedSource>;

/** Parses without running the source. */
export interface SkillParser extends AsyncDisposable {
  /** Throws SKILL_INVALID, with `line` and `reason` in its details, if the source is not a skill. */
  parse(source: string): Promise<ParsedSource>;
}

/** Methods of `skills`. A skill is called as `skills.name(...)`, so it cannot have these names. */
const METHODS: ReadonlySet<string> = new Set(['list', 'get', 'search', 'create', 'delete', 'invoke']);

export function checkSkillName(name: unknown): string {
  return checkIdentifier(name, 'skill', METHODS);
}

const MAX_SOURCE_BYTES = 256 * 1024;

export function checkSourceLength(source: string): void {
  if (Buffer.byteLength(source) > MAX_SOURCE_BYTES)
    throw invalidSkill(`it is longer than ${MAX_SOURCE_BYTES / 1024} KB`);
}

export function invalidSkill(reason: string, line?: number): CellaError {
  const at = line === undefined ? '' : `, line ${line}`;
  return new CellaError('SKILL_INVALID', `The source is no skill${at}: ${reason}.`, {
    details: { reason, line },
  });
}

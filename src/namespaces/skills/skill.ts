/** What a skill is: its description, the parser port, and the rules for names and sources. */

import { z } from 'zod';
import { CellaError } from '../../protocol/errors.ts';
import { checkIdentifier } from '../../protocol/namespace-models.ts';

/** The most parameters that `run` may have. Of a skill that was stored before this limit, the first ones are kept. */
export const MAX_PARAMETERS = 255;

export const SkillParameter = z.strictObject({
  name: z.string(),
  kind: z.enum(['positional_only', 'positional_or_keyword', 'var_positional', 'keyword_only', 'var_keyword']),
  /** As written in the source. */
  annotation: z.string().optional(),
  /** As written in the source. */
  default: z.string().optional(),
  required: z.boolean(),
});
export type SkillParameter = z.infer<typeof SkillParameter>;

export interface SkillInfo {
  readonly name: string;
  readonly description: string;
  readonly parameters: readonly SkillParameter[];
  /** Milliseconds since 1970. */
  readonly updatedAt: number;
  /** Whether it is the operator's, for all users of a server: it can be used, and not be changed. */
  readonly shared?: true;
}

export interface Skill extends SkillInfo {
  readonly source: string;
}

/** A skill in the storage that cannot be used, for instance since a person has changed its file. */
export interface SkillProblem {
  readonly name: string;
  /** A path, or a key. */
  readonly where: string;
  readonly line: number | undefined;
  readonly reason: string;
}

export const ParsedSource = z.strictObject({
  /** The module's docstring, else the first paragraph of that of `run`, else empty. */
  description: z.string(),
  /** One more than the limit means: too many. */
  parameters: z.array(SkillParameter).max(MAX_PARAMETERS + 1),
  /** Where the module's docstring lies in the source. */
  docstring: z.strictObject({ start: z.int().min(0), end: z.int().min(0) }).nullable(),
});
export type ParsedSource = z.infer<typeof ParsedSource>;

/** Parses without running the source. */
export interface SkillParser extends AsyncDisposable {
  /** SKILL_INVALID, with `line` and `reason` in its details, if it is not a skill. */
  parse(source: string): Promise<ParsedSource>;
}

/** Methods of `skills` itself: a skill is called as `skills.name(...)`, so it cannot have these names. */
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

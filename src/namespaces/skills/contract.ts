/** What is known of a skill, and the port through which its source is read without running it. */

import { z } from 'zod';
import { MOST_PARAMETERS } from './source-limit.ts';

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

export const SkillReading = z.strictObject({
  /** The module's docstring, else the first paragraph of that of `run`, else empty. */
  description: z.string(),
  /** One more than may be tells that there are too many. */
  parameters: z.array(SkillParameter).max(MOST_PARAMETERS + 1),
  /** Where the module's docstring lies in the source. */
  docstring: z.strictObject({ start: z.int().min(0), end: z.int().min(0) }).nullable(),
});
export type SkillReading = z.infer<typeof SkillReading>;

/** Never runs what it reads. */
export interface SkillReader extends AsyncDisposable {
  /** SKILL_INVALID, with `line` and `reason` in its details, where it is no skill. */
  read(source: string): Promise<SkillReading>;
}

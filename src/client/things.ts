/** What a user has at a server, whatever sessions there are: tools, skills, artifacts and packages. */

import type { ArtifactInfo } from '../protocol/artifact.ts';
import { ListThings, type ThingKind } from '../protocol/http/namespace-routes.ts';
import type { SkillInfo, SkillProblem, ToolInfo, ToolProblem } from '../session/api.ts';
import type { Link } from './link.ts';
import { toSkill } from './skills.ts';
import { toTool } from './tools.ts';

export interface Things {
  readonly tools: readonly ToolInfo[];
  readonly toolProblems: readonly ToolProblem[];
  readonly skills: readonly SkillInfo[];
  readonly skillProblems: readonly SkillProblem[];
  readonly artifacts: readonly ArtifactInfo[];
  readonly deps: readonly string[];
}

/** The lists of other kinds are empty where `only` one is asked for. */
export async function thingsAt(link: Link, only?: ThingKind): Promise<Things> {
  const { tools, skills, skillProblems, ...others } = await link.call(ListThings, { query: { only } });
  return {
    ...others,
    tools: tools.map(toTool),
    skills: skills.map(toSkill),
    skillProblems: skillProblems.map(({ line, ...problem }) => ({ ...problem, line })),
  };
}

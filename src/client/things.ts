/** What a user has at a server, whatever sessions there are: tools, skills, artifacts and packages. */

import { ListThings } from '../protocol/api/namespace-routes.ts';
import type { ArtifactInfo, ThingKind } from '../protocol/namespace-models.ts';
import type { SkillInfo, SkillProblem, ToolInfo, ToolProblem } from '../session/api.ts';
import type { Link } from './link.ts';
import { everyPage } from './place.ts';
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
  const { tools, skills, skillProblems, artifacts, next, ...others } = await link.call(ListThings, { query: { only } });
  /** What the first answer has left out of a kind. */
  const rest = async <K extends 'tools' | 'skills' | 'artifacts'>(kind: K) => {
    const from = next?.[kind];
    if (from === undefined) return [];
    return await everyPage(async (after = from) => {
      const page = await link.call(ListThings, { query: { only: kind, after } });
      return { items: page[kind] as readonly (typeof page)[K][number][], next: page.next?.[kind] };
    });
  };
  return {
    ...others,
    tools: [...tools, ...(await rest('tools'))].map(toTool),
    skills: [...skills, ...(await rest('skills'))].map(toSkill),
    artifacts: [...artifacts, ...(await rest('artifacts'))],
    skillProblems: skillProblems.map(({ line, ...problem }) => ({ ...problem, line })),
  };
}

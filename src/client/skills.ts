/** The skills of a session at a server. */

import { z } from 'zod';
import * as wire from '../protocol/api/namespace-routes.ts';
import type { SkillInfo, SkillProblem, SkillsApi } from '../session/api.ts';
import { checked } from './link.ts';
import { callAt, everyPage, type Place } from './place.ts';

const Skill = z.object({
  name: z.string(),
  description: z.string(),
  parameters: z.array(
    z.object({
      name: z.string(),
      kind: z.enum(['positional_only', 'positional_or_keyword', 'var_positional', 'keyword_only', 'var_keyword']),
      annotation: z.string().optional(),
      default: z.string().optional(),
      required: z.boolean(),
    }),
  ),
  updatedAt: z.number(),
  shared: z.literal(true).exactOptional(),
});
const WithSource = Skill.extend({ source: z.string() });

export class RemoteSkills implements SkillsApi {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  async list(): Promise<readonly SkillInfo[]> {
    return await everyPage(async (after) => {
      const { skills, next } = await callAt(this.#place, wire.ListSkills, { query: { after } });
      return { items: skills.map(toSkill), next };
    });
  }

  async get(name: string): Promise<SkillInfo & { readonly source: string }> {
    return checked(WithSource, await callAt(this.#place, wire.GetSkill, { params: { name } }), 'skills');
  }

  async search(q: string, { limit }: { readonly limit?: number } = {}): Promise<readonly SkillInfo[]> {
    return (await callAt(this.#place, wire.ListSkills, { query: { q, limit } })).skills.map(toSkill);
  }

  async create(
    { name, source, description }: Parameters<SkillsApi['create']>[0],
    { replace }: { readonly replace?: boolean } = {},
  ): Promise<SkillInfo> {
    return toSkill(
      await callAt(this.#place, wire.CreateSkill, {
        body: { name, source, description: description ?? undefined, replace },
      }),
    );
  }

  async delete(name: string): Promise<void> {
    await callAt(this.#place, wire.DeleteSkill, { params: { name } });
  }

  async problems(): Promise<readonly SkillProblem[]> {
    const { problems } = await callAt(this.#place, wire.SkillProblems);
    return problems.map(({ line, ...problem }) => ({ ...problem, line }));
  }
}

export function toSkill(value: unknown): SkillInfo {
  return checked(Skill, value, 'skills');
}

/** What the code of a kernel can ask of the skills. */

import { z } from 'zod';
import type { PyValue } from '../../protocol/kernel-marshal.ts';
import { type Methods, method } from '../contract.ts';
import { Listed, pageValue } from '../page.ts';
import type { Skill, SkillInfo, SkillParameter } from './contract.ts';

interface SkillCalls {
  list(): Promise<SkillInfo[]>;
  get(name: string): Promise<Skill>;
  search(query: string, options: { readonly limit?: number }): Promise<SkillInfo[]>;
  create(skill: { name: string; source: string; description: string | null }): Promise<SkillInfo>;
  delete(name: string): Promise<void>;
}

const Named = z.strictObject({ name: z.string() });
const Search = z.strictObject({ query: z.string(), limit: z.int().min(1).max(100).default(5) });
const Create = z.strictObject({ name: z.string(), source: z.string(), description: z.string().nullable() });

export function skillMethods(skills: SkillCalls): Methods {
  return {
    'skills.list': method(Listed, async ({ after, limit }) => {
      const rest = (await skills.list()).filter(({ name }) => name > after);
      return await pageValue(rest, infoValue, limit);
    }),
    'skills.get': method(Named, async ({ name }) => {
      const skill = await skills.get(name);
      return { ...infoValue(skill), source: skill.source };
    }),
    'skills.search': method(Search, async ({ query, limit }) => {
      return (await skills.search(query, { limit })).map(infoValue);
    }),
    'skills.create': method(Create, async (skill) => infoValue(await skills.create(skill))),
    'skills.delete': method(Named, async ({ name }) => {
      await skills.delete(name);
      return null;
    }),
  };
}

function infoValue({ name, description, parameters, updatedAt, shared }: SkillInfo): { [name: string]: PyValue } {
  return { name, description, parameters: parameters.map(parameterValue), updatedAt, ...(shared && { shared }) };
}

/** A field that is not there is left out: the wire has no `undefined`. */
function parameterValue({ name, kind, annotation, default: preset, required }: SkillParameter): PyValue {
  return {
    name,
    kind,
    ...(annotation !== undefined && { annotation }),
    ...(preset !== undefined && { default: preset }),
    required,
  };
}

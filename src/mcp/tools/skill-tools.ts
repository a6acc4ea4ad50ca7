/** The MCP tools for skills. */

import { z } from 'zod';
import type { SkillInfo, SkillParameter } from '../../namespaces/skills/skill.ts';
import {
  asToolResult,
  Limit,
  listResult,
  Query,
  READ_ONLY,
  type ToolContext,
  textResult,
  truncateDescription,
} from './tool-context.ts';

const Skill = z.object({ call: z.string(), description: z.string() });
const Skills = z.object({ skills: z.array(Skill), problems: z.array(z.string()).optional() });
const Name = z.string().min(1).max(200).describe('A Python name, such as monthly_report.');

export function registerSkills({ server, backend }: ToolContext): void {
  const skills = async () => (await backend.namespaces()).skills;
  server.registerTool(
    'list_skills',
    {
      title: 'List skills',
      description: 'List the skills that are kept. Code that run_code runs calls them as skills.NAME(...).',
      inputSchema: z.strictObject({}),
      outputSchema: Skills,
      annotations: READ_ONLY,
    },
    () =>
      asToolResult(backend, async () => {
        const kept = await skills();
        const [all, broken] = await Promise.all([kept.list(), kept.problems()]);
        const problems = broken.map(({ name, reason }) => `${name}: ${reason}`);
        const summaries = all.map(toSkillSummary);
        const lines = [...summaries.map(toLine), ...problems.map((problem) => `[cannot be used] ${problem}`)];
        return listResult(lines, 'There are no skills.', { skills: summaries, problems });
      }),
  );
  server.registerTool(
    'search_skills',
    {
      title: 'Search skills',
      description: 'Find skills by what they do, the best first. Look here before you write code for a common task.',
      inputSchema: z.strictObject({ query: Query, limit: Limit }),
      outputSchema: Skills,
      annotations: READ_ONLY,
    },
    ({ query, limit }) =>
      asToolResult(backend, async () => {
        const found = (await (await skills()).search(query, { limit })).map(toSkillSummary);
        return listResult(found.map(toLine), 'No skill fits.', { skills: found });
      }),
  );
  server.registerTool(
    'create_skill',
    {
      title: 'Create a skill',
      description:
        'Keep Python code as a skill for later, in this and other sessions. The source must define `async def run(...)`; it may call tools, skills, artifacts and deps. It is checked, and not run.',
      inputSchema: z.strictObject({
        name: Name,
        source: z.string().min(1).max(262_144).describe('Python source with `async def run(...)`.'),
        description: z.string().max(4000).optional().describe('What it is for, in words that a search would use.'),
        replace: z.boolean().default(false).describe('Whether to replace a skill that has this name.'),
      }),
      outputSchema: Skill,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
    },
    ({ name, source, description, replace }) =>
      asToolResult(backend, async () => {
        const skill = { name, source, description };
        const created = toSkillSummary(await (await skills()).create(skill, { replace }));
        return textResult(`Kept: ${toLine(created)}`, { structuredContent: created });
      }),
  );
  server.registerTool(
    'delete_skill',
    {
      title: 'Delete a skill',
      description: 'Delete a skill that is kept, for all sessions.',
      inputSchema: z.strictObject({ name: Name }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    },
    ({ name }) =>
      asToolResult(backend, async () => {
        await (await skills()).delete(name);
        return textResult(`Deleted the skill ${name}.`);
      }),
  );
}

type SkillSummary = z.infer<typeof Skill>;

function toSkillSummary({ name, description, parameters }: SkillInfo): SkillSummary {
  return { call: `skills.${name}(${parameters.map(word).join(', ')})`, description: truncateDescription(description) };
}

function toLine({ call, description }: SkillSummary): string {
  return description === '' ? call : `${call}: ${description}`;
}

function word({ name, kind, annotation, default: preset }: SkillParameter): string {
  const stars = kind === 'var_positional' ? '*' : kind === 'var_keyword' ? '**' : '';
  return `${stars}${name}${annotation === undefined ? '' : `: ${annotation}`}${preset === undefined ? '' : ` = ${preset}`}`;
}

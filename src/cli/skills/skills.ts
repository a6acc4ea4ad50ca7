/** What can be looked at and changed of the skills of a storage, from a command line and in a chat. */

import type { SkillInfo, SkillParameter, SkillsApi } from '../../session/api.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo } from '../format.ts';

const columns = [{ title: 'NAME' }, { title: 'TAKES' }, { title: 'CHANGED' }, { title: 'DESCRIPTION' }];

export async function list(skills: SkillsApi, report: CommandOutput): Promise<number> {
  const [all, problems] = [await skills.list(), await skills.problems()];
  const facts = { skills: all, problems };
  if (all.length === 0) {
    await report.empty(facts, 'There are no skills. `cella skills create NAME FILE` keeps one.');
  } else await report.table(facts, columns, all.map(toRow));
  await report.warn(
    problems.map(({ where, line, reason }) => {
      const place = line === undefined ? where : `${where}, line ${line}`;
      return `cella: ${escapeControls(place)} is no skill: ${escapeControls(reason)}`;
    }),
  );
  return Exit.ok;
}

export async function search(skills: SkillsApi, query: string, limit: number, report: CommandOutput): Promise<number> {
  const found = await skills.search(query, { limit });
  if (found.length === 0) await report.empty({ skills: found }, 'No skill fits. `cella skills list` shows them all.');
  else await report.table({ skills: found }, columns, found.map(toRow));
  return Exit.ok;
}

export async function show(skills: SkillsApi, name: string, report: CommandOutput): Promise<number> {
  const skill = await skills.get(name);
  if (await report.printJson({ skill })) return Exit.ok;
  const { terminal } = report;
  await terminal.errLines(`${skill.name}(${parametersToText(skill)})`, 'bold');
  if (skill.description !== '') await terminal.errLines(paragraph(skill.description), 'dim');
  await terminal.outLines(skill.source);
  return Exit.ok;
}

export interface NewSkill {
  readonly name: string;
  readonly source: string;
  readonly description?: string;
}

export async function create(
  skills: SkillsApi,
  skill: NewSkill,
  { replace }: { readonly replace: boolean },
  report: CommandOutput,
): Promise<number> {
  const made = await skills.create(skill, { replace });
  await report.success({ skill: made }, `Kept the skill ${made.name}(${parametersToText(made)}).`);
  return Exit.ok;
}

export async function remove(skills: SkillsApi, name: string, report: CommandOutput): Promise<number> {
  await skills.delete(name);
  await report.success({ deleted: name }, `Deleted the skill ${escapeControls(name)}.`);
  return Exit.ok;
}

function toRow(skill: SkillInfo): string[] {
  const name = skill.shared ? `${skill.name} (shared)` : skill.name;
  return [name, parametersToText(skill), formatAgo(skill.updatedAt), firstLine(skill.description)];
}

/** As in the source. */
function parametersToText({ parameters }: Pick<SkillInfo, 'parameters'>): string {
  return escapeControls(parameters.map(parameterToText).join(', '));
}

function parameterToText({ name, kind, annotation, default: preset }: SkillParameter): string {
  const stars = kind === 'var_positional' ? '*' : kind === 'var_keyword' ? '**' : '';
  const typed = annotation === undefined ? `${stars}${name}` : `${stars}${name}: ${annotation}`;
  if (preset === undefined) return typed;
  return annotation === undefined ? `${typed}=${preset}` : `${typed} = ${preset}`;
}

/** Text of others, several lines of it, without anything that a terminal would obey. */
export function paragraph(text: string): string {
  return text.trim().split('\n').map(escapeControls).join('\n');
}

export const firstLine = (text: string): string => text.trim().split('\n')[0] ?? '';

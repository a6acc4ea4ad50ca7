/** What can be looked at and changed of the tools of a storage, from a command line and in a chat. */

import { CellaError } from '../../protocol/errors.ts';
import { type PyValue, valueToJson } from '../../protocol/kernel-marshal.ts';
import type { ToolInfo, ToolParameter, ToolsApi } from '../../session/api.ts';
import { Exit } from '../command-errors.ts';
import type { CommandOutput } from '../command-output.ts';
import { escapeControls } from '../format.ts';
import { firstLine, paragraph } from '../skills/skills.ts';

const columns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'RUNS' },
  { title: 'RECIPES' },
  { title: 'ASKS' },
  { title: 'DESCRIPTION' },
];

export async function list(tools: ToolsApi, report: CommandOutput): Promise<number> {
  const [all, problems] = [await tools.list(), await tools.problems()];
  const facts = { tools: all, problems };
  if (all.length === 0) {
    await report.empty(facts, 'There are no tools. `cella tools add FILE.yaml` adds one, --tools DIR names a folder.');
  } else await report.table(facts, columns, all.map(toRow));
  await report.warn(problems.map(({ message }) => `cella: ${escapeControls(message)}`));
  return Exit.ok;
}

export async function search(tools: ToolsApi, query: string, limit: number, report: CommandOutput): Promise<number> {
  const found = await tools.search(query, { limit });
  if (found.length === 0) await report.empty({ tools: found }, 'No tool fits. `cella tools list` shows them all.');
  else await report.table({ tools: found }, columns, found.map(toRow));
  return Exit.ok;
}

export async function show(tools: ToolsApi, name: string, report: CommandOutput): Promise<number> {
  const tool = await tools.describe(name);
  if (await report.printJson({ tool })) return Exit.ok;
  const { terminal } = report;
  await terminal.outLines(howToCall(tool), 'bold');
  const facts = [
    tool.description === '' ? [] : [paragraph(tool.description)],
    [`${tool.kind}, runs ${placeOf(tool)}${tool.requires_approval ? ', asks a person first' : ''}`],
    tool.tags.length === 0 ? [] : [`tags: ${tool.tags.map(escapeControls).join(', ')}`],
  ].flat();
  await terminal.outLines(facts.join('\n'));
  const lines = tool.parameters.map(describeParameter);
  if (lines.length > 0) await terminal.outLines(`\nArguments:\n${lines.join('\n')}`);
  if (tool.recipes.length === 0) return Exit.ok;
  const recipes = tool.recipes.flatMap((recipe) => [
    `  ${signature(`${tool.name}.${recipe.name}`, recipe.parameters)}`,
    ...(recipe.description === '' ? [] : [`      ${escapeControls(firstLine(recipe.description))}`]),
  ]);
  await terminal.outLines(`\n${tool.kind === 'mcp' ? 'Tools' : 'Recipes'}:\n${recipes.join('\n')}`);
  return Exit.ok;
}

export async function add(
  tools: ToolsApi,
  yaml: string,
  options: { readonly replace: boolean; readonly where: string },
  report: CommandOutput,
): Promise<number> {
  const tool = await tools.add(yaml, options);
  await report.success({ tool }, `Added the tool ${howToCall(tool)}.`);
  return Exit.ok;
}

export async function remove(tools: ToolsApi, name: string, report: CommandOutput): Promise<number> {
  if (!(await tools.remove(name))) {
    const known = (await tools.list()).some((tool) => tool.name === name);
    const why = known ? ' It lies in a folder, so delete its file there.' : '';
    throw new CellaError('TOOL_NOT_FOUND', `The storage has no tool ${JSON.stringify(name)}.${why}`);
  }
  await report.success({ removed: name }, `Removed the tool ${escapeControls(name)}.`);
  return Exit.ok;
}

function toRow(tool: ToolInfo): string[] {
  const recipes = tool.recipes.map(({ name }) => name);
  const shown = recipes.length > 3 ? `${recipes.slice(0, 3).join(', ')}, +${recipes.length - 3}` : recipes.join(', ');
  return [tool.name, tool.kind, placeOf(tool), shown, tool.requires_approval ? 'yes' : '', firstLine(tool.description)];
}

const placeOf = ({ runs_on }: ToolInfo): string => (runs_on === 'host' ? 'on the host' : 'in the sandbox');

/** A server is not called itself: its tools are. */
function howToCall({ kind, name, parameters }: ToolInfo): string {
  return kind === 'mcp' ? `${escapeControls(name)}.TOOL(...)` : signature(name, parameters);
}

export function signature(name: string, parameters: readonly ToolParameter[]): string {
  const shown = parameters.map((parameter) => {
    const stars = parameter.variadic ? '*' : '';
    const preset = parameter.required ? '' : `=${toPython(parameter.default ?? null)}`;
    return `${stars}${parameter.name}${parameter.variadic ? '' : preset}`;
  });
  return escapeControls(`${name}(${shown.join(', ')})`);
}

/** As code writes it. */
function toPython(value: PyValue): string {
  if (value === null) return 'None';
  return typeof value === 'boolean' ? (value ? 'True' : 'False') : JSON.stringify(valueToJson(value));
}

function describeParameter(parameter: ToolParameter): string {
  const { name, type, items, required, description } = parameter;
  const typed = type === 'array' && items !== undefined ? `list of ${items}` : type;
  const choices = parameter.enum === undefined ? '' : `, one of ${parameter.enum.map(String).join(', ')}`;
  const about = description === '' ? '' : `  ${firstLine(description)}`;
  return escapeControls(`  ${name.padEnd(16)}${typed}${choices}${required ? ', required' : ''}${about}`);
}

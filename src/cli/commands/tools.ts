/** `cella tools`: programs, MCP servers and HTTP requests that code can call. */

import type { Command } from 'commander';
import { type ToolInfo, type ToolParameter, writeParameters } from '../../protocol/namespace-models.ts';
import { type PyValue, valueToJson } from '../../protocol/py-values.ts';
import type { ToolCatalogApi, ToolsApi } from '../../session/api.ts';
import type { OpenOptions } from '../backend/backend.ts';
import { parseArguments } from '../call-arguments.ts';
import { withSession } from '../command-lifecycle.ts';
import { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, firstLine, paragraph } from '../format.ts';
import { parseLimit, parseText } from '../options.ts';
import {
  addNamespaceFlags,
  addSessionFlags,
  addToolsFlag,
  type NamespaceFlags,
  namespaceRunner,
  type SessionFlags,
  sessionOptions,
} from '../session-flags.ts';
import { openLineInput } from '../terminal/line-editor.ts';
import { type LineSource, readText } from '../terminal/line-input.ts';
import { approvalPrompter } from '../terminal/prompts.ts';

const NAME = 'name of the tool';

export function addTools(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.tools);
  const make = (name: string, summary: string, examples: string) =>
    addToolsFlag(addNamespaceFlags(defineCommand(group, name, summary, examples)));
  const run = namespaceRunner(context, done);

  make('list', 'list tools, and invalid definitions', help.list).action((flags: NamespaceFlags) =>
    run(flags, ({ tools }, output) => list(tools, output)),
  );
  make('show', 'show the parameters and recipes of a tool', help.show)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) => run(flags, ({ tools }, output) => show(tools, name, output)));
  make('search', 'find tools by what they do', help.search)
    .argument('<query...>', 'what you want to do, in plain words')
    .option('--limit <n>', 'maximum number of results', parseLimit, 10)
    .action((query: string[], flags: NamespaceFlags & { limit: number }) =>
      run(flags, ({ tools }, output) => search(tools, query.join(' '), flags.limit, output)),
    );
  make('create', 'check a definition and add it to the storage', help.create)
    .argument('<file>', 'definition in YAML, or - to read it from stdin', parseText)
    .option('--replace', 'replace the tool of this name, if there is one')
    .action(async (file: string, flags: NamespaceFlags & { replace?: boolean }) => {
      const advice = 'Name a YAML file, or - for stdin.';
      const yaml = await readText(file, { stdin: context.terminal.stdin, advice });
      const where = file === '-' ? 'the definition on stdin' : file;
      const options = { replace: flags.replace === true, where };
      await run(flags, ({ tools }, output) => create(tools, yaml, options, output));
    });
  make('delete', 'delete a definition from the storage', help.delete)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) => run(flags, ({ tools }, output) => remove(tools, name, output)));
  addCall(group, context, done);
}

interface CallFlags extends SessionFlags {
  readonly args?: string;
  readonly approve?: boolean;
  readonly json?: boolean;
}

function addCall(group: Command, context: CommandContext, done: Done): void {
  addSessionFlags(defineCommand(group, 'call', 'call a tool in the sandbox of an agent key', help.call))
    .argument('<name>', 'name of the tool, or NAME.RECIPE', parseText)
    .argument('[arguments...]', 'arguments as name=value; values without a name are positional')
    .option('--args <json>', 'all arguments as one JSON object')
    .option('--approve', 'run a tool that requires approval without asking')
    .option('--json', 'print the result as JSON')
    .action(async (callee: string, words: string[], flags: CallFlags) => {
      const session = sessionOptions(flags, context.defaults);
      const { args, approve: approved = false, json = false } = flags;
      done(await call({ callee, words, args, session, approved, json }, context));
    });
}

const columns = [
  { title: 'NAME' },
  { title: 'KIND' },
  { title: 'RUNS' },
  { title: 'RECIPES' },
  { title: 'APPROVAL' },
  { title: 'DESCRIPTION' },
];

export async function list(tools: ToolCatalogApi, report: CommandOutput): Promise<number> {
  const [all, problems] = [await tools.list(), await tools.problems()];
  const facts = { tools: all, problems };
  if (all.length === 0) {
    await report.empty(
      facts,
      'There are no tools. Create one with `cella tools create FILE.yaml`, or name a folder with --tools DIR.',
    );
  } else await report.table(facts, columns, all.map(toRow));
  await report.warn(problems.map(({ message }) => `cella: ${escapeControls(message)}`));
  return Exit.ok;
}

export async function search(
  tools: ToolCatalogApi,
  query: string,
  limit: number,
  report: CommandOutput,
): Promise<number> {
  const found = await tools.search(query, { limit });
  if (found.length === 0)
    await report.empty({ tools: found }, 'No tool matches. `cella tools list` shows all of them.');
  else await report.table({ tools: found }, columns, found.map(toRow));
  return Exit.ok;
}

export async function show(tools: ToolCatalogApi, name: string, report: CommandOutput): Promise<number> {
  const tool = await tools.describe(name);
  if (await report.printJson({ tool })) return Exit.ok;
  const { terminal } = report;
  await terminal.outLines(howToCall(tool), 'bold');
  const facts = [
    tool.description === '' ? [] : [paragraph(tool.description)],
    [`${tool.kind}, runs ${describeRunsOn(tool)}${tool.requires_approval ? ', requires approval' : ''}`],
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

async function create(
  tools: ToolCatalogApi,
  yaml: string,
  options: { readonly replace: boolean; readonly where: string },
  report: CommandOutput,
): Promise<number> {
  const tool = await tools.create(yaml, options);
  await report.success({ tool }, `Created the tool ${howToCall(tool)}.`);
  return Exit.ok;
}

async function remove(tools: ToolCatalogApi, name: string, report: CommandOutput): Promise<number> {
  await tools.delete(name);
  await report.success({ deleted: name }, `Deleted the tool ${escapeControls(name)}.`);
  return Exit.ok;
}

function toRow(tool: ToolInfo): string[] {
  const recipes = tool.recipes.map(({ name }) => name);
  const shown = recipes.length > 3 ? `${recipes.slice(0, 3).join(', ')}, +${recipes.length - 3}` : recipes.join(', ');
  return [
    tool.name,
    tool.kind,
    describeRunsOn(tool),
    shown,
    tool.requires_approval ? 'yes' : '',
    firstLine(tool.description),
  ];
}

const describeRunsOn = ({ runs_on }: ToolInfo): string => (runs_on === 'host' ? 'on the host' : 'in the sandbox');

/** An MCP server is not callable itself; its tools are. */
function howToCall({ kind, name, parameters }: ToolInfo): string {
  return kind === 'mcp' ? `${escapeControls(name)}.TOOL(...)` : signature(name, parameters);
}

export function signature(name: string, parameters: readonly ToolParameter[]): string {
  return escapeControls(`${name}(${writeParameters(parameters)})`);
}

function describeParameter(parameter: ToolParameter): string {
  const { name, type, items, required, description } = parameter;
  const typed = type === 'array' && items !== undefined ? `list of ${items}` : type;
  const choices = parameter.enum === undefined ? '' : `, one of ${parameter.enum.map(String).join(', ')}`;
  const about = description === '' ? '' : `  ${firstLine(description)}`;
  return escapeControls(`  ${name.padEnd(16)}${typed}${choices}${required ? ', required' : ''}${about}`);
}

interface ToolWords {
  /** `NAME`, or `NAME.RECIPE`. */
  readonly callee: string;
  readonly words: readonly string[];
  readonly args: string | undefined;
  readonly signal?: AbortSignal;
  /** Typing the command approves the call. */
  readonly approved?: boolean;
}

interface CallRequest extends ToolWords {
  readonly session: OpenOptions;
  readonly json: boolean;
}

export async function call(request: CallRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const report = new CommandOutput(terminal, request);
  let lines: LineSource | undefined;
  const approve = terminal.interactive ? { approve: approvalPrompter({ terminal, lines: () => lines }) } : {};
  try {
    return await withSession({ ...request.session, ...approve }, context, async (session, signals) => {
      if (terminal.interactive) lines = openLineInput(terminal, signals.interrupt);
      return await callTool(session.tools, request, report);
    });
  } finally {
    lines?.close();
  }
}

export async function callTool(tools: ToolsApi, request: ToolWords, report: CommandOutput): Promise<number> {
  const { callee, words, args, signal, approved = false } = request;
  const dot = callee.indexOf('.');
  const [name, recipe] = dot < 0 ? [callee, undefined] : [callee.slice(0, dot), callee.slice(dot + 1)];
  const tool = await tools.describe(name);
  const parameters = tool.recipes.find((each) => each.name === recipe)?.parameters ?? tool.parameters;
  const { named, positional } = parseArguments(words, args, parameters);
  const result = await tools.call(tool.name, named, {
    positional,
    approved,
    recipe,
    signal,
    onProgress: report.progress,
  });
  const facts = { tool: tool.name, recipe, result: valueToJson(result) };
  if (await report.printJson(facts)) return Exit.ok;
  const text = resultToText(result);
  if (text !== '') await report.terminal.outLines(text);
  return Exit.ok;
}

/** Text as it is, lists of text as lines, and anything else as JSON. */
function resultToText(result: PyValue): string {
  if (result === null) return '';
  if (typeof result === 'string') return result;
  if (Array.isArray(result) && result.every((line) => typeof line === 'string')) return result.join('\n');
  return JSON.stringify(valueToJson(result), undefined, 2);
}

const help = {
  tools: `
Examples:
  $ cella tools create grep.yaml
  $ cella tools list
  $ cella tools show grep
  $ cella tools call grep TODO notes.txt
  $ cella tools call grep.count TODO notes.txt

A tool is a program, an MCP server or an HTTP request, described in YAML. \`cella tools create --help\`
shows an example. All agent keys of a storage share it: code calls it as
\`tools.grep("TODO", "notes.txt")\`. --tools DIR, or CELLA_TOOLS, adds folders with more definitions.
See docs/tools.md.`,
  list: `
Examples:
  $ cella tools list
  $ cella tools list --tools ./tools
  $ cella tools list --json | jq -r '.tools[].name'

If a definition is not valid, Cella prints its file and line. The other tools still work.`,
  show: `
Examples:
  $ cella tools show grep
  $ cella tools show grep --json | jq .tool.parameters`,
  search: `
Examples:
  $ cella tools search find text in files
  $ cella tools search weather --limit 3 --json`,
  create: `
Examples:
  $ cella tools create grep.yaml
  $ cella tools create - < grep.yaml
  $ cella tools create grep.yaml --replace

  # grep.yaml
  name: grep
  description: Find lines in a file
  command: grep
  schema:
    options:
      count: { type: boolean }
    positional:
      - { name: pattern, required: true }
      - { name: file, required: true }
  recipes:
    count: { preset: { count: true } }`,
  delete: `
Examples:
  $ cella tools delete grep

To delete a tool of a --tools folder, delete its file.`,
  call: `
Examples:
  $ cella tools call grep TODO notes.txt
  $ cella tools call grep.count pattern=TODO file=notes.txt      the grep of \`tools create --help\`
  $ cella tools call weather --args '{"city": "Oslo", "days": 3}' --json
  $ cella tools call deploy target=test --approve

A program runs in the sandbox and workspace of the agent key, unless its definition says
\`runs_on: host\`. Cella checks values against the types in the definition. If the tool requires
approval, Cella shows the call and asks you. Without a terminal, it refuses the call, unless you add
--approve.`,
};

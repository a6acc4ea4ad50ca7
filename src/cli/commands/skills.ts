/** `cella skills`: Python functions that code saves for later. */

import type { Command } from 'commander';
import { type SkillInfo, writeSkillParameters } from '../../protocol/namespace-models.ts';
import { type PyValue, valueToJson } from '../../protocol/py-values.ts';
import type { SkillsApi } from '../../session/api.ts';
import type { OpenOptions } from '../backend/backend.ts';
import { type ArgumentType, type KnownParameter, parseArguments } from '../call-arguments.ts';
import { CellRunner } from '../cells/cell-runner.ts';
import { tagCell } from '../chat/code-commands.ts';
import { UsageError } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import type { CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit, exitCodeOf } from '../exit-codes.ts';
import { escapeControls, firstLine, formatAgo, paragraph } from '../format.ts';
import { parseLimit, parseSeconds, parseText } from '../options.ts';
import {
  addNamespaceFlags,
  addSessionFlags,
  type NamespaceFlags,
  namespaceRunner,
  type SessionFlags,
  sessionOptions,
} from '../session-flags.ts';
import { emptyInput, readText } from '../terminal/line-input.ts';

const NAME = 'name of the skill';

interface CreateSkillFlags extends NamespaceFlags {
  readonly description?: string;
  readonly replace?: boolean;
}

export function addSkills(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.skills);
  const make = (name: string, summary: string, examples: string) =>
    addNamespaceFlags(defineCommand(group, name, summary, examples));
  const run = namespaceRunner(context, done);

  make('list', 'list skills, and files that are not valid skills', help.list).action((flags: NamespaceFlags) =>
    run(flags, ({ skills }, output) => list(skills, output)),
  );
  make('show', 'show the source and parameters of a skill', help.show)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) => run(flags, ({ skills }, output) => show(skills, name, output)));
  make('search', 'find skills by what they do', help.search)
    .argument('<query...>', 'what you want to do, in plain words')
    .option('--limit <n>', 'maximum number of results', parseLimit, 10)
    .action((query: string[], flags: NamespaceFlags & { limit: number }) =>
      run(flags, ({ skills }, output) => search(skills, query.join(' '), flags.limit, output)),
    );
  make('create', 'create a skill; its source is checked, not run', help.create)
    .argument('<name>', NAME, parseText)
    .argument('<file>', 'Python with `async def run(...)`, or - to read it from stdin', parseText)
    .option('--description <text>', 'what it does (default: the docstring of the source)')
    .option('--replace', 'replace the skill of this name, if there is one')
    .action(async (name: string, file: string, flags: CreateSkillFlags) => {
      const advice = 'Name a Python file, or - for stdin.';
      const source = await readText(file, { stdin: context.terminal.stdin, advice });
      const { description, replace = false } = flags;
      const skill = { name, source, description };
      await run(flags, ({ skills }, output) => create(skills, skill, { replace }, output));
    });
  make('delete', 'delete a skill', help.delete)
    .argument('<name>', NAME, parseText)
    .action((name: string, flags: NamespaceFlags) => run(flags, ({ skills }, output) => remove(skills, name, output)));
  addRun(group, context, done);
}

interface RunSkillFlags extends SessionFlags {
  readonly args?: string;
  readonly timeout?: number;
  readonly json?: boolean;
}

function addRun(group: Command, context: CommandContext, done: Done): void {
  addSessionFlags(defineCommand(group, 'run', 'run a skill in the kernel of an agent key', help.run))
    .argument('<name>', NAME, parseText)
    .argument('[arguments...]', 'arguments as name=value')
    .option('--args <json>', 'all arguments as one JSON object')
    .option('--timeout <seconds>', 'stop the skill after this time', parseSeconds)
    .option('--json', 'print one JSON event per line, the result last')
    .action(async (name: string, words: string[], flags: RunSkillFlags) => {
      const session = sessionOptions(flags, context.defaults);
      const { args, timeout: timeoutMs = 0, json = false } = flags;
      done(await runSkill({ name, words, args, session, timeoutMs, json }, context));
    });
}

const columns = [{ title: 'NAME' }, { title: 'PARAMETERS' }, { title: 'UPDATED' }, { title: 'DESCRIPTION' }];

export async function list(skills: SkillsApi, report: CommandOutput): Promise<number> {
  const [all, problems] = [await skills.list(), await skills.problems()];
  const facts = { skills: all, problems };
  if (all.length === 0) {
    await report.empty(facts, 'There are no skills. Create one with `cella skills create NAME FILE`.');
  } else await report.table(facts, columns, all.map(toRow));
  await report.warn(
    problems.map(({ where, line, reason }) => {
      const location = line === undefined ? where : `${where}, line ${line}`;
      return `cella: ${escapeControls(location)} is not a skill: ${escapeControls(reason)}`;
    }),
  );
  return Exit.ok;
}

export async function search(skills: SkillsApi, query: string, limit: number, report: CommandOutput): Promise<number> {
  const found = await skills.search(query, { limit });
  if (found.length === 0)
    await report.empty({ skills: found }, 'No skill matches. `cella skills list` shows all of them.');
  else await report.table({ skills: found }, columns, found.map(toRow));
  return Exit.ok;
}

export async function show(skills: SkillsApi, name: string, report: CommandOutput): Promise<number> {
  const skill = await skills.get(name);
  if (await report.printJson({ skill })) return Exit.ok;
  const { terminal } = report;
  await terminal.errLines(`${skill.name}(${escapeControls(writeSkillParameters(skill.parameters))})`, 'bold');
  if (skill.description !== '') await terminal.errLines(paragraph(skill.description), 'dim');
  await terminal.outLines(skill.source);
  return Exit.ok;
}

interface SkillRequest {
  readonly name: string;
  readonly source: string;
  readonly description?: string;
}

async function create(
  skills: SkillsApi,
  skill: SkillRequest,
  { replace }: { readonly replace: boolean },
  report: CommandOutput,
): Promise<number> {
  const made = await skills.create(skill, { replace });
  await report.success(
    { skill: made },
    `Created the skill ${made.name}(${escapeControls(writeSkillParameters(made.parameters))}).`,
  );
  return Exit.ok;
}

export async function remove(skills: SkillsApi, name: string, report: CommandOutput): Promise<number> {
  await skills.delete(name);
  await report.success({ deleted: name }, `Deleted the skill ${escapeControls(name)}.`);
  return Exit.ok;
}

function toRow(skill: SkillInfo): string[] {
  const name = skill.shared ? `${skill.name} (shared)` : skill.name;
  return [
    name,
    escapeControls(writeSkillParameters(skill.parameters)),
    formatAgo(skill.updatedAt),
    firstLine(skill.description),
  ];
}

interface SkillRunRequest {
  readonly name: string;
  readonly words: readonly string[];
  readonly args: string | undefined;
  readonly session: OpenOptions;
  readonly timeoutMs: number;
  readonly json: boolean;
}

async function runSkill(request: SkillRunRequest, context: CommandContext): Promise<number> {
  const { terminal } = context;
  const { name, words, args, json, timeoutMs } = request;
  // The session's flags are checked when it opens.
  await using namespaces = await context.backend.openNamespaces({ ...request.session, typed: [] });
  const skill = await namespaces.skills.get(name);
  const code = invokeCell(skill.name, parseSkillArguments(skill, words, args), words);
  return await withSession(request.session, context, async (session, signals) => {
    const cells = new CellRunner({ session, terminal, signals, lines: emptyInput, json });
    return exitCodeOf(await cells.execute(code, { timeoutMs }));
  });
}

/** Finds the skill even if the code has reassigned `skills`. Binds no name. */
export function invokeCell(
  name: string,
  named: Readonly<Record<string, PyValue>>,
  words: readonly string[] = [],
): string {
  const given = JSON.stringify(JSON.stringify(valueToJson({ ...named })));
  const quoted = JSON.stringify(name.toWellFormed());
  const code = `__import__("builtins").skills.invoke(${quoted}, **__import__("json").loads(${given}))`;
  return tagCell('skills', ['run', name, ...words].join(' '), code);
}

/** Parses words and JSON of a command line according to the skill's parameters. */
export function parseSkillArguments(
  skill: Pick<SkillInfo, 'name' | 'parameters'>,
  words: readonly string[],
  json: string | undefined,
): Record<string, PyValue> {
  const { named, positional } = parseArguments(words, json, skill.parameters.map(known));
  if (positional.length > 0) {
    const word = JSON.stringify(words.find((each) => !each.includes('=')));
    throw new UsageError(
      `An argument of the skill ${skill.name} has no name: ${word}.`,
      'Write arguments as name=value.',
    );
  }
  // The skill itself reports missing parameters that have no name for callers.
  const missing = skill.parameters.find(
    ({ name, kind, required }) => required && kind !== 'positional_only' && !Object.hasOwn(named, name),
  );
  if (!missing) return named;
  throw new UsageError(`The skill ${skill.name} needs ${missing.name}.`, `Write it as ${missing.name}=VALUE.`);
}

const types: Readonly<Record<string, ArgumentType>> = {
  str: 'string',
  int: 'integer',
  float: 'number',
  bool: 'boolean',
  list: 'array',
  dict: 'object',
};

/** Checks only what is certain; the skill checks the rest. */
function known({ name, annotation = '' }: SkillInfo['parameters'][number]): KnownParameter {
  return { name, type: types[annotation.trim()] ?? 'any' };
}

const help = {
  skills: `
Examples:
  $ cella skills create double double.py --description 'Doubles a number'
  $ cella skills list
  $ cella skills search make a number larger
  $ cella skills run double n=21

A skill is a Python file with \`async def run(...)\`. All agent keys of a storage share it: code calls
it as \`skills.double(n=21)\`, and creates more with \`skills.create\`. See docs/namespaces.md.`,
  list: `
Examples:
  $ cella skills list
  $ cella skills list --json | jq -r '.skills[].name'`,
  show: `
Examples:
  $ cella skills show double
  $ cella skills show double > double.py      only the source goes to stdout`,
  search: `
Examples:
  $ cella skills search fetch a web page
  $ cella skills search 'statistics of a table' --limit 3 --json

The best match comes first. Words with the same meaning match too.`,
  create: `
Examples:
  $ cella skills create double double.py
  $ printf 'async def run(n: int):\\n    return n * 2\\n' | cella skills create double -
  $ cella skills create double double.py --replace

Parses the source, and never runs it. The name must be a Python identifier.`,
  delete: `
Examples:
  $ cella skills delete double`,
  run: `
Examples:
  $ cella skills run double n=21
  $ cella skills run report title=Sales days=7 --key ada --timeout 60
  $ cella skills run report --args '{"title": "Sales", "days": 7}' --json

The skill runs in the sandboxed kernel of the agent key. Output and exit codes are those of
\`cella run\`. Cella reads each value as the type that the source declares for the parameter (str, int,
float, bool, list, dict). For a parameter without such a type, it reads valid JSON as JSON, and everything
else as text. If you give a name several times, its values become a list.`,
};

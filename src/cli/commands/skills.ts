/** `cella skills`: Python functions that agents keep for later. */

import type { Command } from 'commander';
import { eventToJson } from '../../protocol/execution-events.ts';
import { type PyValue, valueToJson } from '../../protocol/py-values.ts';
import type { SkillInfo, SkillParameter, SkillsApi } from '../../session/api.ts';
import { type ArgumentType, type KnownParameter, parseArguments } from '../call-arguments.ts';
import { printEvent, printNotices } from '../cells/event-printer.ts';
import { tagCell } from '../chat/shell-cell.ts';
import { Exit, exitCodeOf, UsageError } from '../command-errors.ts';
import { withSession } from '../command-lifecycle.ts';
import type { CommandOutput } from '../command-output.ts';
import type { OpenOptions } from '../context.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, firstLine, formatAgo, paragraph } from '../format.ts';
import { parseLimit, parseSeconds, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import {
  addNamespaceFlags,
  addSessionFlags,
  createOutput,
  type NamespaceContext,
  type NamespaceFlags,
  namespacesOptions,
  type SessionFlags,
  sessionOptions,
} from '../session-flags.ts';
import { readText } from '../terminal/line-input.ts';

const NAME = 'the name of the skill';

export function addSkills(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.skills);
  const open = async (flags: NamespaceFlags) => {
    const namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    return { namespaces, report: createOutput(flags, context) };
  };
  addNamespaceFlags(
    defineCommand(group, 'list', 'all skills, and what is wrong with files that are none', help.list),
  ).action(async (flags: NamespaceFlags) => {
    const { report, ...opened } = await open(flags);
    await using namespaces = opened.namespaces;
    done(await list(namespaces.skills, report));
  });
  addNamespaceFlags(defineCommand(group, 'show', 'the source of a skill, and what it takes', help.show))
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await show(namespaces.skills, name, report));
    });
  addNamespaceFlags(defineCommand(group, 'search', 'find skills by what they are for', help.search))
    .argument('<query...>', 'what is to be done, in plain words')
    .option('--limit <n>', 'at most so many', parseLimit, 10)
    .action(async (query: string[], flags: NamespaceFlags & { limit: number }) => {
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await search(namespaces.skills, query.join(' '), flags.limit, report));
    });
  addNamespaceFlags(defineCommand(group, 'create', 'keep a skill; its source is checked, not run', help.create))
    .argument('<name>', NAME, parseText)
    .argument('<file>', 'Python with `async def run(...)`, or - to read it from stdin', parseText)
    .option('--description <text>', "what it is for (default: the source's own docstring)")
    .option('--replace', 'also where there is one of that name')
    .action(async (name: string, file: string, flags: NamespaceFlags & { description?: string; replace?: boolean }) => {
      const source = await readText(file, {
        stdin: context.terminal.stdin,
        advice: 'Name a Python file, or - for stdin.',
      });
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      const { description, replace = false } = flags;
      const skill = { name, source, ...(description === undefined ? {} : { description }) };
      done(await create(namespaces.skills, skill, { replace }, report));
    });
  addNamespaceFlags(defineCommand(group, 'delete', 'forget a skill', help.remove))
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await remove(namespaces.skills, name, report));
    });
  addRun(group, context, done);
}

interface RunFlags extends SessionFlags {
  readonly args?: string;
  readonly timeout?: number;
  readonly json?: boolean;
}

function addRun(group: Command, context: ProgramContext, done: Done): void {
  addSessionFlags(defineCommand(group, 'run', "run a skill in an agent's kernel", help.run))
    .argument('<name>', NAME, parseText)
    .argument('[arguments...]', 'its arguments, as name=value')
    .option('--args <json>', 'all arguments as one JSON object')
    .option('--timeout <seconds>', 'stop it after this long', parseSeconds)
    .option('--json', 'print one event a line as JSON, the result last')
    .action(async (name: string, words: string[], flags: RunFlags) => {
      const session = sessionOptions(flags, context.defaults);
      const { args, timeout: timeoutMs = 0, json = false } = flags;
      done(await runSkill({ name, words, args, session, timeoutMs, json }, context));
    });
}

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

export interface SkillRequest {
  readonly name: string;
  readonly source: string;
  readonly description?: string;
}

export async function create(
  skills: SkillsApi,
  skill: SkillRequest,
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

export interface SkillRunRequest {
  readonly name: string;
  readonly words: readonly string[];
  readonly args: string | undefined;
  readonly session: OpenOptions;
  readonly timeoutMs: number;
  readonly json: boolean;
}

export async function runSkill(request: SkillRunRequest, context: NamespaceContext): Promise<number> {
  const { terminal } = context;
  const { name, words, args, json, timeoutMs } = request;
  await using namespaces = await context.openNamespaces(request.session);
  const skill = await namespaces.skills.get(name);
  const code = invokeCell(skill.name, parseSkillArguments(skill, words, args), words);
  return await withSession(request.session, context, async (session) => {
    for await (const event of session.stream(code, { timeoutMs })) {
      if (event.type === 'input_request') await session.cancelInput(event.id, 'a skill has nobody to ask here');
      if (json) await terminal.out(`${JSON.stringify(eventToJson(event))}\n`);
      else {
        if (event.type === 'result') await printNotices(terminal, event);
        await printEvent(terminal, event);
      }
      if (event.type === 'result') return exitCodeOf(event);
    }
    throw new Error('the skill ended without a result');
  });
}

/** Where the code has given another meaning to `skills`, this still finds them. It binds no name. */
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

/** Words and JSON of a command line, by what the source says of its parameters. */
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
  // One that has no name for callers is for the skill itself to complain of.
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

/** Only what is sure is checked here; the skill itself sees to the rest. */
function known({ name, annotation = '' }: SkillInfo['parameters'][number]): KnownParameter {
  return { name, type: types[annotation.trim()] ?? 'any' };
}

export const help = {
  skills: `
Examples:
  $ cella skills create double double.py --description 'Doubles a number'
  $ cella skills list
  $ cella skills search make a number larger
  $ cella skills run double n=21

A skill is Python with \`async def run(...)\`. The code of every agent of a storage can call it as
\`skills.double(n=21)\`, and make more of them with \`skills.create\`.`,
  list: `
Examples:
  $ cella skills list
  $ cella skills list --json | jq -r '.skills[].name'`,
  show: `
Examples:
  $ cella skills show double
  $ cella skills show double > double.py      the source alone goes to stdout`,
  search: `
Examples:
  $ cella skills search fetch a web page
  $ cella skills search 'statistics of a table' --limit 3 --json

The best comes first. Other words that mean the same are found too.`,
  create: `
Examples:
  $ cella skills create double double.py
  $ printf 'async def run(n: int):\\n    return n * 2\\n' | cella skills create double -
  $ cella skills create double double.py --replace

The source is read, and never run, when it is kept. A name is a Python name.`,
  remove: `
Examples:
  $ cella skills delete double`,
  run: `
Examples:
  $ cella skills run double n=21
  $ cella skills run report title=Sales days=7 --agent ada --timeout 60
  $ cella skills run report --args '{"title": "Sales", "days": 7}' --json

It runs in the sandboxed kernel of the agent, and its result is shown as that of \`cella run\`, with the
same exit codes. A value is text, a number, true or false as the source says of its parameter; where
it says nothing, JSON is taken as such and the rest as text.`,
};

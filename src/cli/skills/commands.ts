/** `cella skills`: Python that agents keep for later. */

import { type Command, InvalidArgumentError } from 'commander';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import {
  addNamespaceFlags,
  addSessionFlags,
  createOutput,
  type NamespaceFlags,
  namespacesOptions,
  parseSeconds,
  type SessionFlags,
  sessionOptions,
} from '../session-options.ts';
import { readText } from '../terminal/line-input.ts';
import { help } from './help.ts';

const NAME = 'the name of the skill';

export function addSkills(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.skills);
  const open = async (flags: NamespaceFlags) => {
    const namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    return { ...(await import('./skills.ts')), namespaces, report: createOutput(flags, context) };
  };
  addNamespaceFlags(
    defineCommand(group, 'list', 'all skills, and what is wrong with files that are none', help.list),
  ).action(async (flags: NamespaceFlags) => {
    const { list, report, ...opened } = await open(flags);
    await using namespaces = opened.namespaces;
    done(await list(namespaces.skills, report));
  });
  addNamespaceFlags(defineCommand(group, 'show', 'the source of a skill, and what it takes', help.show))
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { show, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await show(namespaces.skills, name, report));
    });
  addNamespaceFlags(defineCommand(group, 'search', 'find skills by what they are for', help.search))
    .argument('<query...>', 'what is to be done, in plain words')
    .option('--limit <n>', 'at most so many', parseLimit, 10)
    .action(async (query: string[], flags: NamespaceFlags & { limit: number }) => {
      const { search, report, ...opened } = await open(flags);
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
      const { create, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      const { description, replace = false } = flags;
      const skill = { name, source, ...(description === undefined ? {} : { description }) };
      done(await create(namespaces.skills, skill, { replace }, report));
    });
  addNamespaceFlags(defineCommand(group, 'delete', 'forget a skill', help.remove))
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { remove, report, ...opened } = await open(flags);
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
      const { run } = await import('./run.ts');
      const session = sessionOptions(flags, context.defaults);
      const { args, timeout: timeoutMs = 0, json = false } = flags;
      done(await run({ name, words, args, session, timeoutMs, json }, context));
    });
}

export function parseLimit(text: string): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= 100) return limit;
  throw new InvalidArgumentError('It must be a whole number from 1 to 100.');
}

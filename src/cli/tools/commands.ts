/** `cella tools`: programs, MCP servers and HTTP requests that code can call. */

import type { Command } from 'commander';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import {
  addNamespaceFlags,
  addSessionFlags,
  addToolsFlag,
  createOutput,
  type NamespaceFlags,
  namespacesOptions,
  type SessionFlags,
  sessionOptions,
} from '../session-options.ts';
import { parseLimit } from '../skills/commands.ts';
import { readText } from '../terminal/line-input.ts';
import { help } from './help.ts';

const NAME = 'the name of the tool';

export function addTools(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.tools);
  const open = async (flags: NamespaceFlags) => {
    const namespaces = await context.openNamespaces(namespacesOptions(flags, context.defaults));
    return { ...(await import('./tools.ts')), namespaces, report: createOutput(flags, context) };
  };
  const make = (name: string, summary: string, examples: string) =>
    addToolsFlag(addNamespaceFlags(defineCommand(group, name, summary, examples)));
  make('list', 'all tools, and what is wrong with definitions that cannot be used', help.list).action(
    async (flags: NamespaceFlags) => {
      const { list, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await list(namespaces.tools, report));
    },
  );
  make('show', 'what a tool takes, and its recipes', help.show)
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { show, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await show(namespaces.tools, name, report));
    });
  make('search', 'find tools by what they are for', help.search)
    .argument('<query...>', 'what is to be done, in plain words')
    .option('--limit <n>', 'at most so many', parseLimit, 10)
    .action(async (query: string[], flags: NamespaceFlags & { limit: number }) => {
      const { search, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await search(namespaces.tools, query.join(' '), flags.limit, report));
    });
  make('add', 'check a definition and keep it in the storage', help.add)
    .argument('<file>', 'the definition in YAML, or - to read it from stdin', parseText)
    .option('--replace', 'also where there is one of that name')
    .action(async (file: string, flags: NamespaceFlags & { replace?: boolean }) => {
      const advice = 'Name a YAML file, or - for stdin.';
      const yaml = await readText(file, { stdin: context.terminal.stdin, advice });
      const where = file === '-' ? 'the definition on stdin' : file;
      const { add, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await add(namespaces.tools, yaml, { replace: flags.replace === true, where }, report));
    });
  make('remove', 'take a definition out of the storage', help.remove)
    .argument('<name>', NAME, parseText)
    .action(async (name: string, flags: NamespaceFlags) => {
      const { remove, report, ...opened } = await open(flags);
      await using namespaces = opened.namespaces;
      done(await remove(namespaces.tools, name, report));
    });
  addCall(group, context, done);
}

interface CallFlags extends SessionFlags {
  readonly args?: string;
  readonly approve?: boolean;
  readonly json?: boolean;
}

function addCall(group: Command, context: ProgramContext, done: Done): void {
  addSessionFlags(defineCommand(group, 'call', "call a tool in an agent's sandbox", help.call))
    .argument('<name>', 'the name of the tool, or NAME.RECIPE', parseText)
    .argument('[arguments...]', 'its arguments, as name=value; those without a name are given by place')
    .option('--args <json>', 'all arguments as one JSON object')
    .option('--approve', 'run it without asking where it requires approval')
    .option('--json', 'print the result as JSON')
    .action(async (callee: string, words: string[], flags: CallFlags) => {
      const { call } = await import('./call.ts');
      const session = sessionOptions(flags, context.defaults);
      const { args, approve: approved = false, json = false } = flags;
      done(await call({ callee, words, args, session, approved, json }, context));
    });
}

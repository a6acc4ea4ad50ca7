/** Defines a command: its summary, its examples, and how a wrong use of it is reported. */

import type { Command, CommanderError } from 'commander';
import { suggest } from '../lib/suggest.ts';
import { UsageError } from './command-errors.ts';

/** Creates a command of `cella` with this help text after its options. */
export type DefineCommand = (help: string) => Command;

/** Takes the exit code of a command. */
export type Done = (exitCode: number) => void;

export const seeCommands = 'Run `cella --help` to see all commands.';

/** Turns an error of Commander into a UsageError, so that it is reported like every other failure. */
export function throwUsageError(error: CommanderError, command: Command, advice: string): never {
  if (error.exitCode === 0) throw error;
  throw new UsageError(describeError(error, command), advice);
}

function describeError({ code, message }: CommanderError, command: Command): string {
  if (code === 'commander.help') return 'A command is missing.';
  if (code === 'commander.unknownCommand') return describeUnknownCommand(command, command.args[0] ?? '');
  return message.replace(/^error: /, '');
}

/** What other programs call our commands. */
const SYNONYMS: ReadonlyMap<string, readonly string[]> = new Map([
  ['add', ['create', 'set', 'install']],
  ['agent', ['prompt']],
  ['get', ['show', 'load']],
  ['ls', ['list']],
  ['new', ['create']],
  ['put', ['save', 'set']],
  ['remove', ['delete', 'uninstall', 'revoke']],
  ['rm', ['delete', 'remove', 'uninstall', 'revoke']],
  ['set', ['update']],
  ['shell', ['exec']],
  ['store', ['storage']],
  ['terminal', ['exec']],
]);

export function describeUnknownCommand(parent: Command, word: string): string {
  const path = pathOf(parent).join(' ');
  return `Unknown command \`${path} ${word}\`.${suggestCommand(parent, word)}`;
}

/** With a space before it; empty if nothing comes close. */
function suggestCommand(parent: Command, word: string): string {
  const names = parent.commands.map((each) => each.name());
  const meant = SYNONYMS.get(word)?.find((each) => names.includes(each)) ?? suggest(word, names);
  return meant === undefined ? '' : ` Did you mean \`${[...pathOf(parent), meant].join(' ')}\`?`;
}

export function defineCommand(parent: Command, name: string, summary: string, examples: string): Command {
  const path = [...pathOf(parent), name].join(' ');
  const advice = `Run \`${path} --help\` to see how it is used.`;
  const command = parent.command(name);
  return command
    .description(summary)
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .exitOverride((error) => {
      const problem = describeMisuse(error, command, path);
      if (problem === undefined) throwUsageError(error, command, advice);
      const example = findExample(examples, path);
      throw new UsageError(problem, example === undefined ? advice : `For example: \`${example}\`. ${advice}`);
    })
    .addHelpText('after', examples);
}

/** What is wrong with the arguments. Extra arguments are not repeated: one may be a secret. */
function describeMisuse({ code, message }: CommanderError, command: Command, path: string): string | undefined {
  const { registeredArguments: wanted, args } = command;
  const missing = wanted.find((each, index) => each.required && args[index] === undefined);
  switch (code) {
    case 'commander.missingArgument':
      return missing && `\`${path}\` needs <${missing.name()}>${missing.description && `: ${missing.description}`}.`;
    case 'commander.excessArguments': {
      const taken = wanted.map((each) => `<${each.name()}>`).join(' and ');
      const what = taken === '' ? 'no argument' : `${taken} and no other argument`;
      const given = args.length === 1 ? 'is one' : `are ${args.length}`;
      return `\`${path}\` takes ${what}; there ${given}.${suggestCommand(command, args[0] ?? '')}`;
    }
    case 'commander.invalidArgument': {
      const [, value, name, reason] =
        /^error: command-argument value '(.*)' is invalid for argument '(.*?)'\. (.*)$/s.exec(message) ?? [];
      return name && `<${name}> cannot be ${JSON.stringify(value)}. ${reason}`;
    }
    default:
      return undefined;
  }
}

/** The first example of the command, without its description. */
function findExample(examples: string, path: string): string | undefined {
  const lines = examples.matchAll(/^ *\$ (.+?)(?: {2,}.*)?$/gm);
  return [...lines].map(([, typed = '']) => typed).find((typed) => `${typed} `.startsWith(`${path} `));
}

function pathOf(command: Command): string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : [command.name()];
}

/** Defines a command: summary, examples, usage errors, and the context of its action. */

import type { Command, CommanderError } from 'commander';
import { suggest } from '../lib/suggest.ts';
import type { Backend } from './backend/backend.ts';
import type { BackendSelector } from './backend/backend-selector.ts';
import { UsageError } from './command-errors.ts';
import type { SignalSource } from './command-lifecycle.ts';
import type { Defaults } from './session-flags.ts';
import type { CliTerminal } from './terminal/terminal.ts';

/** Creates a command of `cella` with this help text after its options. */
export type DefineCommand = (help: string) => Command;

/** Receives a command's exit code. */
export type Done = (exitCode: number) => void;

export const seeCommands = 'Run `cella --help` to see all commands.';

/** Turns an error of Commander into a UsageError, so that it is reported like every other failure. */
export function throwUsageError(error: CommanderError, command: Command, advice: string): never {
  if (error.exitCode === 0) throw error;
  throw new UsageError(describeError(error, command), advice);
}

function describeError({ code, message }: CommanderError, command: Command): string {
  if (code === 'commander.help') return describeMissingCommand(command);
  if (code === 'commander.unknownCommand') return describeUnknownCommand(command, command.args[0] ?? '');
  return message.replace(/^error: /, '');
}

/** Names that other programs use for these commands. A synonym of several words counts if its first word is a command. */
const SYNONYMS: ReadonlyMap<string, readonly string[]> = new Map([
  ['add', ['create', 'set', 'install']],
  ['agent', ['prompt']],
  ['exec', ['sessions exec']],
  ['get', ['show', 'load']],
  ['install', ['add', 'agents install']],
  ['login', ['users login']],
  ['logs', ['sessions logs']],
  ['ls', ['list', 'ps']],
  ['new', ['create']],
  ['put', ['save', 'set']],
  ['remove', ['delete', 'uninstall', 'revoke']],
  ['rm', ['delete', 'remove', 'uninstall', 'revoke']],
  ['set', ['update']],
  ['server', ['serve']],
  ['shell', ['exec']],
  ['start', ['serve']],
  ['status', ['serve status']],
  ['stop', ['serve stop']],
  ['store', ['storage']],
  ['terminal', ['exec']],
]);

function describeMissingCommand({ parent, commands }: Command): string {
  const names = parent ? commands.map((each) => each.name()) : [];
  return names.length === 0 ? 'A command is missing.' : `A command is missing: ${names.join(', ')}.`;
}

export function describeUnknownCommand(parent: Command, word: string): string {
  const path = pathOf(parent).join(' ');
  return `Unknown command \`${path} ${word}\`.${suggestCommand(parent, word)}`;
}

/** Starts with a space; empty if no command is similar. */
function suggestCommand(parent: Command, word: string): string {
  const names = parent.commands.map((each) => each.name());
  const meant = SYNONYMS.get(word)?.find((each) => names.includes(each.split(' ')[0] ?? '')) ?? suggest(word, names);
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

/** Describes wrong arguments. Does not repeat extra arguments, because one may be a secret. */
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

/** The context of a command that runs code. */
export interface SessionContext {
  readonly terminal: CliTerminal;
  readonly signals: SignalSource;
  readonly backend: Pick<Backend, 'openSession'>;
}

export interface CommandContext extends SessionContext {
  readonly backend: BackendSelector;
  readonly version: string;
  readonly defaults: Defaults;
  /** The defaults with the config file that these flags select. */
  configured?(flags: { readonly data?: string; readonly config?: string }): Promise<Defaults>;
  /** How to start this program again: the program and its first arguments, then the user's words. */
  readonly ownCommand?: readonly string[];
  readonly words?: readonly string[];
}

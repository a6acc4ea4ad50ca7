/** Defines a command: what it is for, its examples, and how a wrong use of it is told. */

import type { Command, CommanderError } from 'commander';
import { UsageError } from './exit.ts';

export const seeCommands = 'Run `cella --help` to see all commands.';

/** Takes what Commander ends a command line with, and tells a wrong one as every other failure is told. */
export function refuse(error: CommanderError, advice: string): never {
  if (error.exitCode === 0) throw error;
  const message = error.code === 'commander.help' ? 'A command is missing.' : error.message.replace(/^error: /, '');
  throw new UsageError(message, advice);
}

export function defineCommand(parent: Command, name: string, summary: string, examples: string): Command {
  const path = [...pathOf(parent), name].join(' ');
  return parent
    .command(name)
    .description(summary)
    .helpOption('-h, --help', 'show this help')
    .helpCommand(false)
    .exitOverride((error) => refuse(error, `Run \`${path} --help\` to see how it is used.`))
    .addHelpText('after', examples);
}

/** Whether a command line may mean it. Of the others the name is enough: all their flags together take long to make. */
export function isMeant(name: string, { words }: { readonly words?: readonly string[] }): boolean {
  return words === undefined || words.includes(name);
}

function pathOf(command: Command): string[] {
  return command.parent ? [...pathOf(command.parent), command.name()] : [command.name()];
}

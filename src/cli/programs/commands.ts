/** `cella agents`: the programs of the coding agents that sessions can work with. */

import type { Command } from 'commander';
import { settings } from '../../settings/settings-table.ts';
import { CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { addSettings, parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { resolveDataDir } from '../target-options.ts';
import { help } from './help.ts';

interface Flags {
  readonly data?: string;
  readonly json?: boolean;
  readonly version?: string;
}

export function addAgents(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.agents);
  const report = (flags: Flags) => new CommandOutput(context.terminal, { json: flags.json === true });
  const requestOf = (agent: string, flags: Flags) => ({
    agent,
    dataDir: resolveDataDir(flags, context.defaults),
    ...(flags.version === undefined ? {} : { version: flags.version }),
  });
  addFlags(defineCommand(group, 'install', 'bring the program of an agent, with npm', help.install))
    .argument('<agent>', 'its name, like claude', parseText)
    .option('--version <version>', 'another version than the one that Cella is tested with', parseText)
    .action(async (agent: string, flags: Flags) => {
      const [{ install }, { runAbortable: stoppable }] = await Promise.all([
        import('./programs.ts'),
        import('../command-lifecycle.ts'),
      ]);
      const request = requestOf(agent, flags);
      done(await stoppable(context, (signal) => install(request, context, report(flags), signal)));
    });
  addFlags(defineCommand(group, 'list', 'all agents: versions, what is missing, and where they lie', help.list)).action(
    async (flags: Flags) => {
      const { list } = await import('./programs.ts');
      done(await list(resolveDataDir(flags, context.defaults), context, report(flags)));
    },
  );
  addFlags(defineCommand(group, 'remove', 'remove the program of an agent', help.remove))
    .argument('<agent>', 'its name', parseText)
    .option('--version <version>', 'this version alone', parseText)
    .action(async (agent: string, flags: Flags) => {
      const { remove } = await import('./programs.ts');
      done(await remove(requestOf(agent, flags), context, report(flags)));
    });
}

function addFlags(command: Command): Command {
  return addSettings(command, [settings.dataDir, settings.config]).option('--json', 'print one JSON object');
}

/** For commands that need a server: flags that select it, and a client connected while the command runs. */

import type { Command } from 'commander';
import type { Client } from '../client/index.ts';
import { settings } from '../settings/settings-table.ts';
import type { ServerFlags } from './backend/find-server.ts';
import { CommandOutput } from './command-output.ts';
import type { CommandContext, Done } from './define-command.ts';
import { addSetting, addSettings } from './options.ts';
import { SERVER_GROUP } from './target-options.ts';

export interface JsonServerFlags extends ServerFlags {
  readonly json?: boolean;
}

type ServerWork = (client: Client, output: CommandOutput) => Promise<number>;

export function addJsonServerFlags(command: Command, about = 'print one JSON object'): Command {
  return addServerFlags(command).option('--json', about);
}

/** Runs the work of one command with a client of the server that its flags name. */
export function serverRunner(
  context: CommandContext,
  done: Done,
): (flags: JsonServerFlags, work: ServerWork) => Promise<void> {
  return async (flags, work) => {
    const { connectToServer } = await import('./backend/find-server.ts');
    await using client = await connectToServer(flags, context.defaults);
    done(await work(client, new CommandOutput(context.terminal, flags)));
  };
}

export function addServerFlags(command: Command): Command {
  const group = SERVER_GROUP;
  addSettings(command, [settings.url, settings.tokenFile], { group });
  addSetting(command, settings.dataDir, { about: 'data folder of a server on this machine', group });
  return addSetting(command, settings.config, { group });
}

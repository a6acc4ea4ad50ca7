/** For commands that need a server: the flags that name it, and a client that is connected while the command works. */

import type { Command } from 'commander';
import type { Client } from '../client/index.ts';
import { settings } from '../settings/settings-table.ts';
import type { ServerFlags } from './backend/find-server.ts';
import { CommandOutput } from './command-output.ts';
import { addSetting, addSettings } from './options.ts';
import type { ProgramContext } from './program.ts';

export interface JsonServerFlags extends ServerFlags {
  readonly json?: boolean;
}

/** `url` returns the address of the server for browsers. */
type ServerWork = (client: Client, report: CommandOutput, url: () => Promise<string>) => Promise<number>;
export type RunAtServer = (flags: JsonServerFlags, work: ServerWork) => Promise<void>;

export function addJsonServerFlags(command: Command): Command {
  return addServerFlags(command).option('--json', 'print JSON');
}

/** Returns the exit code of `work`. */
export async function runAtServer(flags: JsonServerFlags, context: ProgramContext, work: ServerWork): Promise<number> {
  const { connectToServer, resolveServerUrl } = await import('./backend/find-server.ts');
  await using client = await connectToServer(flags, context.defaults);
  const report = new CommandOutput(context.terminal, { json: flags.json === true });
  const url = async () => resolveServerUrl(flags, context.defaults) ?? (await client.server.status()).url;
  return await work(client, report, url);
}

export function addServerFlags(command: Command): Command {
  addSettings(command, [settings.url, settings.tokenFile]);
  addSetting(command, settings.dataDir, { about: 'the data folder of a server on this machine' });
  return addSetting(command, settings.config);
}

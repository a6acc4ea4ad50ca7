/** Commands that are carried out at a server: which one, and what they tell. */

import type { Command } from 'commander';
import type { Client } from '../../client/index.ts';
import type { ProgramContext } from '../program.ts';
import { Report } from '../report.ts';
import type { ServerFlags } from './server.ts';
import { addServerFlags } from './server-flags.ts';

export interface JsonServerFlags extends ServerFlags {
  readonly json?: boolean;
}

/** `url` tells where browsers find the server. */
export type ServerWork = (client: Client, report: Report, url: () => Promise<string>) => Promise<number>;
export type AtServer = (flags: JsonServerFlags, work: ServerWork) => Promise<void>;

export function withServerFlags(command: Command): Command {
  return addServerFlags(command).option('--json', 'print JSON');
}

/** Gives the exit code of the work. */
export async function atServer(flags: JsonServerFlags, context: ProgramContext, work: ServerWork): Promise<number> {
  const { connectTo, urlOf } = await import('./server.ts');
  await using client = await connectTo(flags, context.defaults);
  const report = new Report(context.terminal, { json: flags.json === true });
  const url = async () => urlOf(flags, context.defaults) ?? (await client.server.status()).url;
  return await work(client, report, url);
}

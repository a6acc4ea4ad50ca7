/** `cella profiles`: what people set up for coding agents, kept at a server by name. */

import type { Command } from 'commander';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import { help } from './help.ts';

interface SetFlags extends JsonServerFlags {
  readonly from: string;
}

export function addProfiles(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.profiles);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const named = (command: Command) => command.argument('<name>', 'its name, such as reviewer', parseText);
  const work = () => import('./profiles.ts');

  make('list', 'which there are', help.list).action(async (flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).list(client, report)),
  );
  named(make('show', 'what is in one, as YAML that `set` takes', help.show)).action(
    async (name: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).show(client, name, report)),
  );
  named(make('set', 'make one, or put another in its place', help.set))
    .requiredOption('--from <file>', 'YAML or JSON with what is in it, or - for stdin', parseText)
    .action(async (name: string, flags: SetFlags) =>
      at(flags, async (client, report) => (await work()).set(client, { name, from: flags.from }, report)),
    );
  named(make('delete', 'forget one', help.remove)).action(async (name: string, flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).remove(client, name, report)),
  );
}

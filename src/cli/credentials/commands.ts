/** `cella credentials`: the keys of model providers that agents work with and never hold. */

import { type Command, InvalidArgumentError } from 'commander';
import { type Provider, providers } from '../../protocol/enums.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import { help } from './help.ts';

interface Flags extends JsonServerFlags {
  readonly user?: string;
}

export function addCredentials(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.credentials);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const whose = (command: Command) => command.option('--user <name>', 'of another user, for administrators', parseText);
  const named = (command: Command) => command.argument('<provider>', providers.join(', '), parseProvider);
  const work = () => import('./credentials.ts');

  named(whose(make('set', 'keep one; it is read from stdin or asked for', help.set))).action(
    async (provider: Provider, flags: Flags) =>
      at(flags, async (client, report) => (await work()).set(client, provider, flags.user, report)),
  );
  whose(make('list', 'which there are; nothing of the keys', help.list)).action(async (flags: Flags) =>
    at(flags, async (client, report) => (await work()).list(client, flags.user, report)),
  );
  named(whose(make('delete', 'forget one', help.remove))).action(async (provider: Provider, flags: Flags) =>
    at(flags, async (client, report) => (await work()).remove(client, provider, flags.user, report)),
  );
  make('rotate', 'encrypt all of them anew, for administrators', help.rotate).action(async (flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).rotate(client, report)),
  );
}

function parseProvider(text: string): Provider {
  const found = providers.find((each) => each === text);
  if (found) return found;
  throw new InvalidArgumentError(`Allowed are ${providers.join(', ')}.`);
}

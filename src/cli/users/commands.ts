/** `cella users`: who may use a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Role } from '../../protocol/access-models.ts';
import { roles } from '../../protocol/enums.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';
import { help } from './help.ts';
import type { QuotaFlags } from './quotas.ts';

interface UserFlags extends JsonServerFlags, QuotaFlags {
  readonly role?: Role;
}

export function addUsers(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.users);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const named = (command: Command) => command.argument('<user>', 'its name or id', parseText);
  const work = () => import('./users.ts');

  make('list', 'all of them, by name', help.list).action(async (flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).list(client, report)),
  );
  named(make('show', 'what is known of one', help.show)).action(async (name: string, flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).show(client, name, report)),
  );
  withUserFlags(make('add', 'make one', help.add))
    .argument('<name>', 'of a-z, 0-9, . _ @ and -', parseText)
    .action(async (name: string, flags: UserFlags) =>
      at(flags, async (client, report) => (await work()).add(client, name, flags, report)),
    );
  named(withUserFlags(make('set', 'change the role or the quotas of one', help.set))).action(
    async (name: string, flags: UserFlags) =>
      at(flags, async (client, report) => (await work()).set(client, name, flags, report)),
  );
  named(make('disable', 'keep one out, with all that it has', help.disable)).action(
    async (name: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).turn(client, name, 'disable', report)),
  );
  named(make('enable', 'let one in again', help.enable)).action(async (name: string, flags: JsonServerFlags) =>
    at(flags, async (client, report) => (await work()).turn(client, name, 'enable', report)),
  );
  named(make('remove', 'delete one with all that it has', help.remove)).action(
    async (name: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).remove(client, name, report)),
  );
  make('login', 'make a link for a browser to log in with, once', help.login)
    .argument('[user]', 'its name or id (default: yourself)', parseText)
    .action(async (name: string | undefined, flags: JsonServerFlags) =>
      at(flags, async (client, report, url) => (await work()).login(client, name, await url(), report)),
    );
  named(make('logout', 'end all browser logins of one', help.logout)).action(
    async (name: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => (await work()).logout(client, name, report)),
  );
}

function withUserFlags(command: Command): Command {
  const quota = (flag: string, about: string) => new Option(flag, `${about}, or none`).argParser(parseQuota);
  return command
    .addOption(new Option('--role <role>', 'what it may do (default of a new one: member)').choices(roles))
    .addOption(quota('--sessions <n>', 'sessions'))
    .addOption(quota('--kernels <n>', 'live kernels'))
    .addOption(quota('--memory <mb>', 'the memory limits of these together'))
    .addOption(quota('--executions <n>', 'executions a minute'))
    .addOption(quota('--storage <mb>', 'workspaces, events, outputs, checkpoints, conversations, artifacts and skills'))
    .addOption(quota('--model-usd <usd>', 'USD a day for models'))
    .addOption(quota('--model-tokens <n>', 'tokens of models a day'));
}

function parseQuota(text: string): number | 'none' {
  if (text === 'none') return text;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (value >= 0) return value;
  throw new InvalidArgumentError('It must be a whole number, or none.');
}

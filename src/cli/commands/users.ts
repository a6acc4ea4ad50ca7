/** `cella users`: the users of a server, their roles and quotas. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client, User } from '../../client/index.ts';
import type { Quotas, Role } from '../../protocol/access-models.ts';
import { roles } from '../../protocol/enums.ts';
import { Exit, UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';

interface UserFlags extends JsonServerFlags, QuotaFlags {
  readonly role?: Role;
}

export function addUsers(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.users);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const named = (command: Command) => command.argument('<user>', 'its name or id', parseText);

  make('list', 'all of them, by name', help.list).action(async (flags: JsonServerFlags) =>
    at(flags, async (client, report) => list(client, report)),
  );
  named(make('show', 'what is known of one', help.show)).action(async (name: string, flags: JsonServerFlags) =>
    at(flags, async (client, report) => show(client, name, report)),
  );
  withUserFlags(make('add', 'make one', help.add))
    .argument('<name>', 'of a-z, 0-9, . _ @ and -', parseText)
    .action(async (name: string, flags: UserFlags) =>
      at(flags, async (client, report) => add(client, name, flags, report)),
    );
  named(withUserFlags(make('set', 'change the role or the quotas of one', help.set))).action(
    async (name: string, flags: UserFlags) => at(flags, async (client, report) => set(client, name, flags, report)),
  );
  named(make('disable', 'keep one out, with all that it has', help.disable)).action(
    async (name: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => turn(client, name, 'disable', report)),
  );
  named(make('enable', 'let one in again', help.enable)).action(async (name: string, flags: JsonServerFlags) =>
    at(flags, async (client, report) => turn(client, name, 'enable', report)),
  );
  named(make('remove', 'delete one with all that it has', help.remove)).action(
    async (name: string, flags: JsonServerFlags) => at(flags, async (client, report) => remove(client, name, report)),
  );
  make('login', 'make a link for a browser to log in with, once', help.login)
    .argument('[user]', 'its name or id (default: yourself)', parseText)
    .action(async (name: string | undefined, flags: JsonServerFlags) =>
      at(flags, async (client, report, url) => login(client, name, await url(), report)),
    );
  named(make('logout', 'end all browser logins of one', help.logout)).action(
    async (name: string, flags: JsonServerFlags) => at(flags, async (client, report) => logout(client, name, report)),
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

const columns: readonly Column[] = [
  { title: 'NAME' },
  { title: 'ROLE' },
  { title: 'STATE' },
  { title: 'MADE', align: 'right' },
  { title: 'QUOTAS' },
];

interface UserChange extends QuotaFlags {
  readonly role?: Role;
}

async function list(client: Client, report: CommandOutput): Promise<number> {
  const users: User[] = [];
  for await (const user of client.users.all()) users.push(user);
  const rows = users.map(({ name, role, disabled, createdAt, quotas }) => [
    name,
    role,
    disabled ? 'disabled' : '',
    formatAgo(createdAt),
    quotasToText(quotas),
  ]);
  await report.table({ users }, columns, rows);
  return Exit.ok;
}

async function show(client: Client, name: string, report: CommandOutput): Promise<number> {
  const user = await client.users.get(name);
  await report.result(user, linesOf(user).join('\n'));
  return Exit.ok;
}

async function add(client: Client, name: string, flags: UserChange, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const quotas = quotasOf(flags);
  const user = await client.users.create({ name, ...(role ? { role } : {}), ...(quotas ? { quotas } : {}) });
  const next = `\`cella users login ${user.name}\` makes a link for it, \`cella tokens create --user ${user.name} --name NAME\` a token.`;
  await report.success(user, `Made ${user.name}, a ${user.role}.\n${next}`);
  return Exit.ok;
}

async function set(client: Client, name: string, flags: UserChange, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const { quotas: before, id } = await client.users.get(name);
  const quotas = quotasOf(flags, before);
  if (role === undefined && quotas === undefined) {
    throw new UsageError(
      'There is nothing to change.',
      'Give --role, --sessions, --kernels, --memory, --executions or --storage.',
    );
  }
  const user = await client.users.update(id, { ...(role ? { role } : {}), ...(quotas ? { quotas } : {}) });
  await report.success(user, linesOf(user).join('\n'));
  return Exit.ok;
}

async function turn(client: Client, name: string, verb: 'disable' | 'enable', report: CommandOutput): Promise<number> {
  const user = await client.users.update(name, { disabled: verb === 'disable' });
  await report.success(user, `${user.name} is ${verb}d.`);
  return Exit.ok;
}

async function remove(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  await client.users.delete(id);
  await report.success({ deleted: id, name: called }, `Removed ${called} with its sessions and tokens.`);
  return Exit.ok;
}

async function logout(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  await client.users.logout(called);
  await report.success({ loggedOut: id, name: called }, `All logins of ${called} have ended.`);
  return Exit.ok;
}

/** The link alone is on stdout. */
async function login(client: Client, name: string | undefined, url: string, report: CommandOutput): Promise<number> {
  const { path, expiresAt } = await client.users.loginCode(name);
  const link = new URL(path, url).href;
  await report.result({ url: link, expiresAt }, link);
  await report.note(`It logs ${escapeControls(name ?? client.me.userName)} in, once, until ${formatTime(expiresAt)}.`);
  return Exit.ok;
}

function linesOf({ id, name, role, disabled, quotas, createdAt }: User): string[] {
  const facts: readonly (readonly [string, string])[] = [
    ['name', name],
    ['id', id],
    ['role', role],
    ['state', disabled ? 'disabled' : 'enabled'],
    ['quotas', quotasToText(quotas) || 'none of its own'],
    ['made', formatTime(createdAt)],
  ];
  return facts.map(([title, text]) => `${title.padEnd(7)} ${escapeControls(text)}`);
}

interface QuotaFlags {
  readonly sessions?: number | 'none';
  readonly kernels?: number | 'none';
  readonly memory?: number | 'none';
  readonly executions?: number | 'none';
  /** In megabytes. */
  readonly storage?: number | 'none';
  readonly modelUsd?: number | 'none';
  readonly modelTokens?: number | 'none';
}

const MB = 1024 * 1024;

/** Those before with the changes that the flags say; undefined where they say none. */
function quotasOf(flags: QuotaFlags, before: Quotas = {}): Quotas | undefined {
  const { sessions, kernels, memory, executions, storage, modelUsd, modelTokens } = flags;
  const given = [sessions, kernels, memory, executions, storage, modelUsd, modelTokens];
  if (given.every((flag) => flag === undefined)) return undefined;
  const bytes = typeof storage === 'number' ? storage * MB : storage;
  return {
    ...quota('sessions', sessions ?? before.sessions),
    ...quota('liveKernels', kernels ?? before.liveKernels),
    ...quota('memoryMb', memory ?? before.memoryMb),
    ...quota('executionsPerMinute', executions ?? before.executionsPerMinute),
    ...quota('storageBytes', bytes ?? before.storageBytes),
    ...quota('modelUsdPerDay', modelUsd ?? before.modelUsdPerDay),
    ...quota('modelTokensPerDay', modelTokens ?? before.modelTokensPerDay),
  };
}

function quota(name: keyof Quotas, value: number | 'none' | undefined): Quotas {
  return typeof value === 'number' ? { [name]: value } : {};
}

function quotasToText(quotas: Quotas): string {
  const { sessions, liveKernels, memoryMb, executionsPerMinute, storageBytes } = quotas;
  const { modelUsdPerDay, modelTokensPerDay } = quotas;
  return [
    ...(sessions === undefined ? [] : [`${sessions} sessions`]),
    ...(liveKernels === undefined ? [] : [`${liveKernels} kernels`]),
    ...(memoryMb === undefined ? [] : [`${memoryMb} MB of memory`]),
    ...(executionsPerMinute === undefined ? [] : [`${executionsPerMinute} executions a minute`]),
    ...(storageBytes === undefined ? [] : [`${Math.round(storageBytes / MB)} MB of storage`]),
    ...(modelUsdPerDay === undefined ? [] : [`${modelUsdPerDay} USD a day for models`]),
    ...(modelTokensPerDay === undefined ? [] : [`${modelTokensPerDay} tokens a day`]),
  ].join(', ');
}

const help = {
  users: `
Examples:
  $ cella users add ada --role member      a user; \`cella users login ada\` gives a link for it
  $ cella users list                       all of them
  $ cella users set ada --kernels 4        at most four live kernels
  $ cella users disable ada                out with the next request; everything is kept
  $ cella users remove ada                 gone, with sessions, tokens and logins

They are those of a server: the one on the data folder, by its socket, or that of --url or CELLA_URL
with an administrator's token in --token-file or CELLA_TOKEN. \`cella serve --detach\` starts one.

Roles: a viewer looks at what is shared with it, a member makes sessions of its own, an admin does
everything. docs/access.md tells the rest.`,
  list: `
Examples:
  $ cella users list
  $ cella users list --json | jq -r '.users[] | select(.disabled) | .name'`,
  show: `
Examples:
  $ cella users show ada
  $ cella users show ada --json | jq .quotas`,
  add: `
Examples:
  $ cella users add ada
  $ cella users add ci-bot --role member --kernels 2 --executions 60
  $ cella users add boss@example.org --role admin

A user has no password. It gets in with a link of \`cella users login\`, or with a token of
\`cella tokens create --user NAME --name laptop\`.`,
  set: `
Examples:
  $ cella users set ada --role admin
  $ cella users set ada --memory 4096 --storage none

A quota that is \`none\` is taken away: then the server's own holds, if it has one. What is not named
stays as it is. Everything holds from the next request on.`,
  disable: `
Examples:
  $ cella users disable ada

Nobody gets in as this user from the next request on. Sessions, tokens and files stay, and are there
again after \`cella users enable\`.`,
  enable: `
Examples:
  $ cella users enable ada`,
  remove: `
Examples:
  $ cella users remove ada

Everything of the user is gone: sessions with their files, tokens, logins. \`cella users disable\`
keeps them.`,
  login: `
Examples:
  $ cella users login ada            a link for another user, for administrators
  $ cella users login                one for yourself

The link works once, for 15 minutes, and logs a browser in for seven days.`,
  logout: `
Examples:
  $ cella users logout ada

Ends every browser login of the user at the next request, and login links that nobody has used yet.
Tokens stay: \`cella tokens revoke\` ends those.`,
};

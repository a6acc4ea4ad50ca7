/** `cella users`: the users of a server, their roles and quotas. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client, User } from '../../client/index.ts';
import type { Quotas, Role } from '../../protocol/access-models.ts';
import { roles } from '../../protocol/enums.ts';
import { UsageError } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';
import { confirm } from '../terminal/prompts.ts';

interface UserFlags extends JsonServerFlags, QuotaFlags {
  readonly role?: Role;
}

export function addUsers(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.users);
  const run = serverRunner(context, done);
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const makeForUser = (name: string, summary: string, text: string) =>
    make(name, summary, text).argument('<user>', 'name or id of the user', parseText);

  make('list', 'list users by name', help.list).action((flags: JsonServerFlags) => run(flags, list));
  makeForUser('show', 'show a user with role and quotas', help.show).action((name: string, flags: JsonServerFlags) =>
    run(flags, (client, output) => show(client, name, output)),
  );
  withUserFlags(make('create', 'create a user', help.create))
    .argument('<name>', 'name of the user: a-z, 0-9, and any of . _ @ -', parseText)
    .action((name: string, flags: UserFlags) => run(flags, (client, output) => create(client, name, flags, output)));
  withUserFlags(makeForUser('update', 'change the role or quotas of a user', help.update)).action(
    (name: string, flags: UserFlags) => run(flags, (client, output) => update(client, name, flags, output)),
  );
  makeForUser('disable', 'block a user; everything is kept', help.disable).action(
    (name: string, flags: JsonServerFlags) => run(flags, (client, output) => setDisabled(client, name, true, output)),
  );
  makeForUser('enable', 'let a disabled user in again', help.enable).action((name: string, flags: JsonServerFlags) =>
    run(flags, (client, output) => setDisabled(client, name, false, output)),
  );
  makeForUser('delete', 'delete a user with sessions, files and tokens', help.delete)
    .option('-y, --yes', 'do not ask')
    .action((name: string, flags: JsonServerFlags & { yes?: boolean }) =>
      run(flags, (client, output) => remove(client, { name, confirmed: flags.yes === true }, output)),
    );
  make('login', 'print a link that logs a browser in, once', help.login)
    .argument('[user]', 'name or id of the user (default: yourself)', parseText)
    .action((name: string | undefined, flags: JsonServerFlags) =>
      run(flags, async (client, output) => {
        const { resolveServerUrl } = await import('../backend/find-server.ts');
        const url = resolveServerUrl(flags, context.defaults) ?? (await client.server.status()).url;
        return await login(client, name, url, output);
      }),
    );
  makeForUser('logout', 'end all browser logins of a user', help.logout).action(
    (name: string, flags: JsonServerFlags) => run(flags, (client, output) => logout(client, name, output)),
  );
}

const MB = 1024 * 1024;

interface QuotaRow {
  readonly flag: string;
  readonly field: keyof Quotas;
  /** In the help. */
  readonly about: string;
  /** In lists of quotas; `about` if undefined. */
  readonly unit?: string;
  /** How many of the field's units one of the flag's is. */
  readonly scale?: number;
}

type QuotaFlag = 'sessions' | 'kernels' | 'memory' | 'executions' | 'storage' | 'modelUsd' | 'modelTokens';
type QuotaFlags = { readonly [flag in QuotaFlag]?: number | 'none' };

const quotaTable: Readonly<Record<QuotaFlag, QuotaRow>> = {
  sessions: { flag: '--sessions <n>', field: 'sessions', about: 'maximum number of sessions', unit: 'sessions' },
  kernels: { flag: '--kernels <n>', field: 'liveKernels', about: 'maximum number of live kernels', unit: 'kernels' },
  memory: {
    flag: '--memory <mb>',
    field: 'memoryMb',
    about: 'sum of the memory limits of live kernels',
    unit: 'MB of memory',
  },
  executions: { flag: '--executions <n>', field: 'executionsPerMinute', about: 'executions per minute' },
  storage: {
    flag: '--storage <mb>',
    field: 'storageBytes',
    about: 'size of workspaces, events, outputs, checkpoints, conversations, artifacts and skills',
    unit: 'MB of storage',
    scale: MB,
  },
  modelUsd: { flag: '--model-usd <usd>', field: 'modelUsdPerDay', about: 'USD per day for models' },
  modelTokens: { flag: '--model-tokens <n>', field: 'modelTokensPerDay', about: 'model tokens per day' },
};
// A record has only the keys of its type.
const quotaRows = Object.entries(quotaTable) as [QuotaFlag, QuotaRow][];

function withUserFlags(command: Command): Command {
  command.addOption(
    new Option('--role <role>', 'what the user may do (default for a new user: member)').choices(roles),
  );
  for (const [, { flag, about }] of quotaRows)
    command.addOption(new Option(flag, `${about}, or none`).argParser(parseQuota));
  return command;
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
  { title: 'CREATED', align: 'right' },
  { title: 'QUOTAS' },
];

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
  await report.facts(user, factsOf(user));
  return Exit.ok;
}

async function create(client: Client, name: string, flags: UserFlags, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const quotas = quotasOf(flags);
  const user = await client.users.create({ name, role, quotas });
  const next = `\`cella users login ${user.name}\` prints a login link, \`cella tokens create --user ${user.name} --name NAME\` a token.`;
  await report.success(user, `Created ${user.name} (${user.role}).\n${next}`);
  return Exit.ok;
}

async function update(client: Client, name: string, flags: UserFlags, report: CommandOutput): Promise<number> {
  const { role } = flags;
  const { quotas: before, id } = await client.users.get(name);
  const quotas = quotasOf(flags, before);
  if (role === undefined && quotas === undefined) {
    throw new UsageError(
      'Nothing to change.',
      'Give --role, --sessions, --kernels, --memory, --executions, --storage, --model-usd or --model-tokens.',
    );
  }
  const user = await client.users.update(id, { role, quotas });
  await report.facts(user, factsOf(user));
  return Exit.ok;
}

async function setDisabled(client: Client, name: string, disabled: boolean, report: CommandOutput): Promise<number> {
  const user = await client.users.update(name, { disabled });
  await report.success(user, `${user.name} is ${disabled ? 'disabled' : 'enabled'}.`);
  return Exit.ok;
}

async function remove(
  client: Client,
  { name, confirmed }: { readonly name: string; readonly confirmed: boolean },
  report: CommandOutput,
): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  const question = `Delete ${called} with all sessions, files and tokens? This cannot be undone.`;
  if (!confirmed && !(await confirm(report.terminal, question))) return Exit.failed;
  await client.users.delete(id);
  await report.success({ deleted: id, name: called }, `Deleted ${called} with all sessions, files and tokens.`);
  return Exit.ok;
}

async function logout(client: Client, name: string, report: CommandOutput): Promise<number> {
  const { id, name: called } = await client.users.get(name);
  await client.users.logout(called);
  await report.success({ loggedOut: id, name: called }, `Ended all browser logins of ${called}.`);
  return Exit.ok;
}

/** Prints only the link to stdout. */
async function login(client: Client, name: string | undefined, url: string, report: CommandOutput): Promise<number> {
  const { path, expiresAt } = await client.users.loginCode(name);
  const link = new URL(path, url).href;
  await report.result({ url: link, expiresAt }, link);
  await report.note(
    `Logs ${escapeControls(name ?? client.me.userName)} in. Works once, until ${formatTime(expiresAt)}.`,
  );
  return Exit.ok;
}

function factsOf({ id, name, role, disabled, quotas, createdAt }: User): readonly (readonly [string, string])[] {
  return [
    ['name', name],
    ['id', id],
    ['role', role],
    ['state', disabled ? 'disabled' : 'enabled'],
    ['quotas', quotasToText(quotas) || 'those of the server'],
    ['created', formatTime(createdAt)],
  ];
}

/** The previous quotas with the changes of the flags; undefined if the flags change nothing. */
function quotasOf(flags: QuotaFlags, before: Quotas = {}): Quotas | undefined {
  if (quotaRows.every(([option]) => flags[option] === undefined)) return undefined;
  const quotas: Quotas = {};
  for (const [option, { field, scale = 1 }] of quotaRows) {
    const given = flags[option];
    if (given === undefined) quotas[field] = before[field];
    else if (given !== 'none') quotas[field] = given * scale;
  }
  return quotas;
}

function quotasToText(quotas: Quotas): string {
  return quotaRows
    .flatMap(([, { field, about, unit = about, scale }]) => {
      const amount = quotas[field];
      if (amount === undefined) return [];
      return [`${scale === undefined ? amount : Math.round(amount / scale)} ${unit}`];
    })
    .join(', ');
}

const help = {
  users: `
Examples:
  $ cella users create ada                 \`cella users login ada\` then prints a login link
  $ cella users list
  $ cella users update ada --kernels 4     at most four live kernels
  $ cella users disable ada                blocked from the next request on; everything is kept
  $ cella users delete ada                 deleted, with sessions, files and tokens

These are the users of a server: the one on the data folder, or the one at --url or CELLA_URL with an
administrator's token in --token-file or CELLA_TOKEN. \`cella serve --detach\` starts one.

Roles: a viewer sees what is shared with it, a member creates sessions, an admin may do everything.
See docs/access.md.`,
  list: `
Examples:
  $ cella users list
  $ cella users list --json | jq -r '.users[] | select(.disabled) | .name'`,
  show: `
Examples:
  $ cella users show ada
  $ cella users show ada --json | jq .quotas`,
  create: `
Examples:
  $ cella users create ada
  $ cella users create ci-bot --role member --kernels 2 --executions 60
  $ cella users create boss@example.org --role admin

Users have no password. They log in with a link of \`cella users login\`, or use a token of
\`cella tokens create --user NAME --name laptop\`.`,
  update: `
Examples:
  $ cella users update ada --role admin
  $ cella users update ada --memory 4096 --storage none

\`none\` removes a quota of the user; the server's default quota then applies, if there is one. Values that
you do not set stay unchanged. Changes apply from the next request on.`,
  disable: `
Examples:
  $ cella users disable ada

Blocks the user from the next request on, and keeps sessions, tokens and files. Undo it with
\`cella users enable\`.`,
  enable: `
Examples:
  $ cella users enable ada`,
  delete: `
Examples:
  $ cella users delete ada
  $ cella users delete ada --yes        without a question, for scripts

Deletes the user with all sessions, files, tokens and logins. Asks first; without a terminal, you
must add --yes. \`cella users disable\` blocks a user and keeps everything.`,
  login: `
Examples:
  $ cella users login ada            a link for another user, for administrators
  $ cella users login                a link for yourself

The link works once, for 15 minutes, and logs a browser in for seven days.`,
  logout: `
Examples:
  $ cella users logout ada

Ends every browser login of the user at the next request, and unused login links. Tokens keep working:
revoke them with \`cella tokens revoke\`.`,
};

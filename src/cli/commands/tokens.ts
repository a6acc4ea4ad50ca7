/** `cella tokens`: tokens for programs that use a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import type { Scope } from '../../protocol/access-models.ts';
import { scopes } from '../../protocol/enums.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type CommandContext, type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { Exit } from '../exit-codes.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import { addJsonServerFlags, type JsonServerFlags, serverRunner } from '../target-options.ts';

interface UserTokenFlags extends JsonServerFlags {
  readonly user?: string;
}

interface CreateTokenFlags extends UserTokenFlags {
  readonly name: string;
  readonly scopes?: Scope[];
  readonly expires?: number;
}

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 24 * 3_600_000 } as const;

export function addTokens(define: DefineCommand, context: CommandContext, done: Done): void {
  const group = define(help.tokens);
  const run = serverRunner(context, done);
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const addUser = (command: Command) => command.option('--user <name>', 'another user, for administrators', parseText);

  addUser(make('list', 'list your tokens, without their secrets', help.list)).action((flags: UserTokenFlags) =>
    run(flags, (client, output) => list(client, flags.user, output)),
  );
  addUser(make('create', 'create a token and print it; it is shown only once', help.create))
    .requiredOption('--name <name>', 'what the token is for', parseText)
    .addOption(new Option('--scopes <list>', `any of ${scopes.join(', ')}, separated by commas`).argParser(parseScopes))
    .addOption(new Option('--expires <time>', 'when it expires, such as 30m, 12h or 90d').argParser(parseTime))
    .action((flags: CreateTokenFlags) => run(flags, (client, output) => create(client, flags, output)));
  make('revoke', 'revoke a token', help.revoke)
    .argument('<id>', 'as `cella tokens list` shows it', parseText)
    .action((id: string, flags: JsonServerFlags) => run(flags, (client, output) => revoke(client, id, output)));
}

function parseScopes(text: string): Scope[] {
  return text.split(',').map((word) => {
    const scope = scopes.find((each) => each === word.trim());
    if (scope) return scope;
    throw new InvalidArgumentError(`Allowed are ${scopes.join(', ')}, separated by commas.`);
  });
}

function parseTime(text: string): number {
  const [, count, unit] = /^(\d{1,5})([mhd])$/.exec(text) ?? [];
  const ms = unit === 'm' || unit === 'h' || unit === 'd' ? Number(count) * UNITS_MS[unit] : 0;
  if (ms > 0) return ms;
  throw new InvalidArgumentError('It must be a number of minutes, hours or days, such as 30m, 12h or 90d.');
}

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'USER' },
  { title: 'NAME' },
  { title: 'SCOPES' },
  { title: 'CREATED', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'EXPIRES' },
];

async function list(client: Client, user: string | undefined, report: CommandOutput): Promise<number> {
  const tokens = await client.tokens.list({ user });
  const rows = tokens.map(({ id, userName, name, scopes, createdAt, lastUsedAt, expiresAt }) => [
    id,
    userName,
    name,
    scopes.join(','),
    formatAgo(createdAt),
    lastUsedAt === undefined ? '' : formatAgo(lastUsedAt),
    expiresAt === undefined ? '' : formatTime(expiresAt),
  ]);
  if (tokens.length > 0) await report.table({ tokens }, columns, rows);
  else await report.empty({ tokens }, 'There are no tokens. Create one with `cella tokens create --name NAME`.');
  return Exit.ok;
}

/** Prints only the secret to stdout, for a file or a variable. */
async function create(client: Client, flags: CreateTokenFlags, report: CommandOutput): Promise<number> {
  const { name, user, scopes, expires } = flags;
  const made = await client.tokens.create({ name, user, scopes, expiresInMs: expires });
  const { id, userName, expiresAt, scopes: allowed } = made.info;
  await report.result(made, made.token);
  const end = expiresAt === undefined ? '' : ` Expires ${formatTime(expiresAt)}.`;
  const what = `Token for ${escapeControls(userName)}. Scopes: ${allowed.join(', ')}.${end}`;
  await report.note(`${what}\nIt is not shown again. Revoke it with \`cella tokens revoke ${id}\`.`);
  return Exit.ok;
}

async function revoke(client: Client, id: string, report: CommandOutput): Promise<number> {
  await client.tokens.revoke(id);
  await report.success({ deleted: id }, `Revoked ${id}.`);
  return Exit.ok;
}

const help = {
  tokens: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d > ci-token
  $ cella tokens create --name laptop --user ada        for another user, as an administrator
  $ cella tokens list
  $ cella tokens revoke k3v7q2mzp4abcdef

Programs use a token to log in to a server: the one on the data folder, or the one at --url or
CELLA_URL. Cella prints a token once, when you create it; the server keeps no copy.

Scopes: view; use, which includes view; manage, which includes use; tokens; admin. A request may do only
what both the role of the user and the scopes of the token allow. See docs/access.md.`,
  list: `
Examples:
  $ cella tokens list
  $ cella tokens list --user ada --json | jq -r '.tokens[].id'`,
  create: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d
  $ export CELLA_TOKEN=$(cella tokens create --name today --expires 12h)
  $ cella tokens create --name grafana --scopes view --json | jq -r .token

Only the token goes to stdout; details go to stderr. Without --scopes, it may do what both you and
its user may do. Without --expires, it works until you revoke it. With --scopes use, it runs code only in
existing sessions: the first \`cella run\` of an agent key creates a session, which needs manage.`,
  revoke: `
Examples:
  $ cella tokens revoke k3v7q2mzp4abcdef

The token stops working with the next request. So do browser logins that were made with it.`,
};

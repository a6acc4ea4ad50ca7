/** `cella tokens`: tokens that let programs use a server. */

import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Client } from '../../client/index.ts';
import type { Scope } from '../../protocol/access-models.ts';
import { scopes } from '../../protocol/enums.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { type DefineCommand, type Done, defineCommand } from '../define-command.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';
import { parseText } from '../options.ts';
import type { ProgramContext } from '../program.ts';
import { addJsonServerFlags, type JsonServerFlags, type RunAtServer, runAtServer } from '../server-client.ts';

interface ListFlags extends JsonServerFlags {
  readonly user?: string;
}

interface CreateFlags extends ListFlags {
  readonly name: string;
  readonly scopes?: Scope[];
  readonly expires?: number;
}

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 24 * 3_600_000 } as const;

export function addTokens(define: DefineCommand, context: ProgramContext, done: Done): void {
  const group = define(help.tokens);
  const at: RunAtServer = async (flags, work) => done(await runAtServer(flags, context, work));
  const make = (name: string, summary: string, text: string) =>
    addJsonServerFlags(defineCommand(group, name, summary, text));
  const whose = (command: Command) => command.option('--user <name>', 'of another user, for administrators', parseText);

  whose(make('list', 'yours, without their secrets', help.list)).action(async (flags: ListFlags) =>
    at(flags, async (client, report) => list(client, flags.user, report)),
  );
  whose(make('create', 'make one; it is shown this once', help.create))
    .requiredOption('--name <name>', 'what it is for, to be told from others', parseText)
    .addOption(new Option('--scopes <list>', `what it is for: any of ${scopes.join(', ')}`).argParser(parseScopes))
    .addOption(new Option('--expires <time>', 'when it ends, such as 30m, 12h or 90d').argParser(parseTime))
    .action(async (flags: CreateFlags) => at(flags, async (client, report) => create(client, flags, report)));
  make('revoke', 'let nobody in with it any more', help.revoke)
    .argument('<id>', 'as `cella tokens list` shows it', parseText)
    .action(async (id: string, flags: JsonServerFlags) =>
      at(flags, async (client, report) => revoke(client, id, report)),
    );
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
  { title: 'MADE', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'ENDS' },
];

interface CreateTokenRequest {
  readonly name: string;
  readonly user?: string;
  readonly scopes?: Scope[];
  /** From now on, in milliseconds. */
  readonly expires?: number;
}

async function list(client: Client, user: string | undefined, report: CommandOutput): Promise<number> {
  const tokens = await client.tokens.list({ user });
  if (tokens.length === 0) await report.empty({ tokens }, 'There is no token. `cella tokens create` makes one.');
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
  return Exit.ok;
}

/** The secret alone is on stdout, for a file or a variable. */
async function create(client: Client, wish: CreateTokenRequest, report: CommandOutput): Promise<number> {
  const { name, user, scopes, expires } = wish;
  const made = await client.tokens.create({
    name,
    ...(user === undefined ? {} : { user }),
    ...(scopes === undefined ? {} : { scopes }),
    ...(expires === undefined ? {} : { expiresInMs: expires }),
  });
  const { id, userName, expiresAt, scopes: allowed } = made.info;
  await report.result(made, made.token);
  const end = expiresAt === undefined ? '' : ` until ${formatTime(expiresAt)}`;
  const what = `It lets ${escapeControls(userName)} in${end}, to ${allowed.join(', ')}.`;
  await report.note(`${what}\nIt is shown this once. \`cella tokens revoke ${id}\` ends it.`);
  return Exit.ok;
}

async function revoke(client: Client, id: string, report: CommandOutput): Promise<number> {
  await client.tokens.revoke(id);
  await report.success({ revoked: id }, `Revoked ${id}.`);
  return Exit.ok;
}

const help = {
  tokens: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d > ci-token
  $ cella tokens create --name laptop --user ada        for another user, as an administrator
  $ cella tokens list
  $ cella tokens revoke k3v7q2mzp4abcdef

A token is how a program gets in. It is shown once, when it is made; the server keeps no copy. They
are those of the server on the data folder, or of --url or CELLA_URL with a token of yours.

Scopes, each with those before it: view, use, manage; and tokens, admin. What a request may do is what
the role of the user and the scopes of the token both allow.`,
  list: `
Examples:
  $ cella tokens list
  $ cella tokens list --user ada --json | jq -r '.tokens[].id'`,
  create: `
Examples:
  $ cella tokens create --name ci --scopes manage --expires 90d
  $ export CELLA_TOKEN=$(cella tokens create --name today --expires 12h)
  $ cella tokens create --name grafana --scopes view --json | jq -r .token

The token alone is on stdout, what is to be known of it on stderr. Without --scopes it may do all that
you and its user both may; without --expires it works until it is revoked. The scope use is for
sessions that are there; the first \`cella run\` of an agent makes its own, which needs manage.`,
  revoke: `
Examples:
  $ cella tokens revoke k3v7q2mzp4abcdef

Nobody gets in with it from the next request on, nor with browser logins that were made by it.`,
};

/** Tokens of a server: listed, made and revoked. */

import type { Client } from '../../client/index.ts';
import type { Scope } from '../../protocol/access-models.ts';
import { Exit } from '../command-errors.ts';
import type { Column, CommandOutput } from '../command-output.ts';
import { escapeControls, formatAgo, formatTime } from '../format.ts';

const columns: readonly Column[] = [
  { title: 'ID' },
  { title: 'USER' },
  { title: 'NAME' },
  { title: 'SCOPES' },
  { title: 'MADE', align: 'right' },
  { title: 'USED', align: 'right' },
  { title: 'ENDS' },
];

export interface TokenWish {
  readonly name: string;
  readonly user?: string;
  readonly scopes?: Scope[];
  /** From now on, in milliseconds. */
  readonly expires?: number;
}

export async function list(client: Client, user: string | undefined, report: CommandOutput): Promise<number> {
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
export async function create(client: Client, wish: TokenWish, report: CommandOutput): Promise<number> {
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

export async function revoke(client: Client, id: string, report: CommandOutput): Promise<number> {
  await client.tokens.revoke(id);
  await report.success({ revoked: id }, `Revoked ${id}.`);
  return Exit.ok;
}
